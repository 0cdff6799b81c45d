import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { loadNativeEngine } from './native-engine.js';
import { Tokenizer } from './tokenizer.js';
import type { TokenizerJson } from './tokenizer-files.js';

interface Fixture {
  bos: number;
  eos: number;
  size: number;
  cases: { text: string; ids: number[]; plain: number[]; decoded: string; skipped: string }[];
}

const path = (name: string) => fileURLToPath(new URL(`./fixtures/${name}`, import.meta.url));
const fixtures = JSON.parse(readFileSync(path('tokenizers.json'), 'utf8')) as Record<string, Fixture>;

describe.each(Object.entries(fixtures))('%s', (style, { bos, eos, size, cases }) => {
  it('knows its special tokens', async () => {
    const tokenizer = await Tokenizer.load(path(style));
    expect([tokenizer.bosTokenId, tokenizer.eosTokenId, tokenizer.vocabSize]).toEqual([bos, eos, size]);
    expect(tokenizer.hasChatTemplate).toBe(false);
    expect(() => tokenizer.applyChatTemplate([{ role: 'user', content: 'x' }])).toThrow('has no chat template');
  });

  it('encodes and decodes as in Python, in both engines and as a stream', async () => {
    const tokenizer = await Tokenizer.load(path(style));
    const json = JSON.parse(readFileSync(path(`${style}/tokenizer.json`), 'utf8')) as TokenizerJson;
    const native = await loadNativeEngine(json);
    for (const { text, ids, plain, decoded, skipped } of cases) {
      const seen = {
        ids: [...tokenizer.encode(text, { addSpecialTokens: true })],
        plain: [...tokenizer.encode(text)],
        decoded: tokenizer.decode(ids),
        skipped: tokenizer.decode(ids, { skipSpecialTokens: true }),
      };
      expect({ text, ...seen }).toEqual({ text, ids, plain, decoded, skipped });
      if (native) expect([...((await native.encodeBatch([text], true))[0] as Int32Array)]).toEqual(ids);
      const stream = tokenizer.detokenizer({ skipSpecialTokens: true });
      const streamed = ids.map((id) => stream.push(id)).join('') + stream.flush();
      expect(streamed).toBe(skipped);
    }
  });
});
