/** A tokenizer small enough to read: one token per UTF-8 byte, and three special ones. ChatML as the chat template. */
import type { ChatTokenizer } from '../../src/agents/types.js';
import { ByteDetokenizer } from '../../src/models/tokenizer/detokenizer.js';
import type { ChatMessage, ChatTemplateOptions } from '../../src/models/tokenizer/types.js';
import type { ServerTokenizer } from '../../src/rollout/server/index.js';

export const END = 256;
export const TURN_START = 257;
export const TURN_END = 258;
export const VOCAB_SIZE = 259;

const SPECIAL = new Map([
  [END, '<|endoftext|>'],
  [TURN_START, '<|im_start|>'],
  [TURN_END, '<|im_end|>'],
]);

function bytesOf(id: number, skipSpecialTokens: boolean): Uint8Array {
  const special = SPECIAL.get(id);
  if (special !== undefined) return Buffer.from(skipSpecialTokens ? '' : special);
  return Uint8Array.of(id);
}

function encode(text: string): number[] {
  return text.split(/(<\|endoftext\|>|<\|im_start\|>|<\|im_end\|>)/).flatMap((piece) => {
    const special = [...SPECIAL].find(([, name]) => name === piece);
    return special ? [special[0]] : [...Buffer.from(piece)];
  });
}

/** Readable by people and by scripts: tools and template arguments first, then ChatML. */
function applyChatTemplate(messages: readonly ChatMessage[], options: ChatTemplateOptions = {}): string {
  const { tools, kwargs = {}, addGenerationPrompt } = options;
  if (messages[0]?.role === 'assistant') throw new Error('a conversation cannot begin with the assistant');
  const turns = messages.map((message) => {
    const calls = message.tool_calls?.length ? JSON.stringify(message.tool_calls.map((call) => call.function)) : '';
    return `<|im_start|>${message.role}\n${message.content}${calls}<|im_end|>`;
  });
  const header = `${tools?.length ? `# Tools ${JSON.stringify(tools)}` : ''}${Object.keys(kwargs).length > 0 ? JSON.stringify(kwargs) : ''}`;
  return `${header}${turns.join('')}${addGenerationPrompt ? '<|im_start|>assistant\n' : ''}`;
}

export const byteTokenizer: ServerTokenizer & ChatTokenizer = {
  encode,
  decode: (ids, { skipSpecialTokens = false } = {}) =>
    Buffer.concat(Array.from(ids, (id) => bytesOf(id, skipSpecialTokens))).toString(),
  detokenizer: ({ skipSpecialTokens = false } = {}) => new ByteDetokenizer((id) => bytesOf(id, skipSpecialTokens)),
  applyChatTemplate,
  encodeChat: (messages, options) => encode(applyChatTemplate(messages, options)),
};
