/** A model folder that is made in a moment: a byte-level tokenizer with ChatML and a Qwen2 of a few thousand weights. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { manualSeed } from '@verlet/torch';
import { afterAll } from 'vitest';
import { runCommandLine } from '../../src/cli/frame.js';
import { createCausalLM, saveCausalLM } from '../../src/models/index.js';
import { CHATML_TEMPLATE, Tokenizer, trainBpe } from '../../src/models/tokenizer/index.js';

const CORPUS = [
  'What is the capital of France? The capital of France is Paris. 1 + 2 = 3 #### 3',
  'user assistant system How many apples? Tom has 4 apples and buys 2 more, so 6. #### 6 Answer: \\boxed{6}',
];

export function temporaryFolder(name: string): string {
  const folder = mkdtempSync(path.join(tmpdir(), `verlet-${name}-`));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

interface TinyModelOptions {
  seed?: number;
  layers?: number;
  positions?: number;
}

export async function makeTinyModel(folder: string, options: TinyModelOptions = {}): Promise<string> {
  const tokenizer = await trainBpe(CORPUS, {
    vocabSize: 320,
    folder,
    specialTokens: ['<|endoftext|>', '<|im_start|>', '<|im_end|>'],
    chatTemplate: CHATML_TEMPLATE,
  });
  manualSeed(options.seed ?? 1);
  const model = createCausalLM({
    model_type: 'qwen2',
    architectures: ['Qwen2ForCausalLM'],
    hidden_size: 32,
    num_attention_heads: 4,
    num_key_value_heads: 2,
    num_hidden_layers: options.layers ?? 2,
    intermediate_size: 64,
    vocab_size: tokenizer.vocabSize,
    max_position_embeddings: options.positions ?? 512,
    rms_norm_eps: 1e-6,
    rope_theta: 10000,
    tie_word_embeddings: true,
    hidden_act: 'silu',
    initializer_range: 0.1,
    eos_token_id: tokenizer.tokenToId('<|im_end|>'),
    pad_token_id: tokenizer.tokenToId('<|endoftext|>'),
  });
  await saveCausalLM(model, folder);
  model.dispose();
  return folder;
}

export const loadTokenizer = (folder: string): Promise<Tokenizer> => Tokenizer.load(folder);

/** Runs one command line through the frame, as the executable does. */
export async function verlet(words: readonly string[], options: { signal?: AbortSignal } = {}) {
  const printed: string[] = [];
  const noted: string[] = [];
  const io = { print: (text: string) => printed.push(text), note: (text: string) => noted.push(text) };
  const exitCode = await runCommandLine(words, { io, signal: options.signal });
  return { exitCode, printed: printed.join('\n'), noted: noted.join('\n') };
}
