import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CHATML_TEMPLATE, type Tokenizer, trainBpe } from '../../models/tokenizer/index.js';

const CORPUS = [
  'You are a helpful assistant. What is the capital of France? The capital of France is Paris.',
  '<tool_call>\n{"name": "add", "arguments": {"a": 1, "b": 2}}\n</tool_call> <tool_response> <think> </think>',
  '<search> who wrote it </search> <answer> Beijing </answer> <information> Doc 1(Title: "x") </information>',
  'Thought: I need the tool. Action: add Action Input: {"a": 1} Observation: 3 Final Answer: 3 user assistant system',
];

export interface TinyTokenizerOptions {
  /** ChatML when absent. */
  chatTemplate?: string;
  specialTokens?: readonly string[];
  endToken?: string;
}

/** A tokenizer that is made in a moment: all bytes, a few merges, a chat template, and the id that ends a turn. */
export async function tinyTokenizer({
  chatTemplate = CHATML_TEMPLATE,
  specialTokens = ['<|endoftext|>', '<|im_start|>', '<|im_end|>'],
  endToken = '<|im_end|>',
}: TinyTokenizerOptions = {}): Promise<{ tokenizer: Tokenizer; endTokenId: number }> {
  const folder = await mkdtemp(join(tmpdir(), 'verlet-tiny-tokenizer-'));
  const tokenizer = await trainBpe(CORPUS, { vocabSize: 420, folder, specialTokens, chatTemplate });
  const endTokenId = tokenizer.tokenToId(endToken);
  if (endTokenId === null) throw new Error(`${endToken} is not among the special tokens ${specialTokens.join(' ')}`);
  return { tokenizer, endTokenId };
}
