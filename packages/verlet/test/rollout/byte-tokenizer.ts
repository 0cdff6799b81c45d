/** A tokenizer small enough to read: one token per UTF-8 byte, and three special ones. ChatML as the chat template. */
import { ByteDetokenizer } from '../../src/models/tokenizer/detokenizer.js';
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

export const byteTokenizer: ServerTokenizer = {
  encode: (text) => [...Buffer.from(text)],
  decode: (ids, { skipSpecialTokens = false } = {}) =>
    Buffer.concat(Array.from(ids, (id) => bytesOf(id, skipSpecialTokens))).toString(),
  detokenizer: ({ skipSpecialTokens = false } = {}) => new ByteDetokenizer((id) => bytesOf(id, skipSpecialTokens)),
  encodeChat(messages, { tools, kwargs } = {}) {
    if (messages[0]?.role === 'assistant') throw new Error('a conversation cannot begin with the assistant');
    const turns = messages.flatMap((message) => {
      const calls = message.tool_calls ? JSON.stringify(message.tool_calls.map((call) => call.function)) : '';
      return [TURN_START, ...Buffer.from(`${message.role}\n${message.content}${calls}`), TURN_END];
    });
    const header = `${tools?.length ? `# Tools ${JSON.stringify(tools)}` : ''}${kwargs ? JSON.stringify(kwargs) : ''}`;
    return [...Buffer.from(header), ...turns, TURN_START, ...Buffer.from('assistant\n')];
  },
};
