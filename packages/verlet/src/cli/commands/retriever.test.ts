import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it, vi } from 'vitest';
import { RetrieverClient } from '../../agents/search/index.js';
import { runCommandLine } from '../frame.js';

const folder = mkdtempSync(join(tmpdir(), 'verlet-retriever-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const corpus = join(folder, 'corpus.jsonl');
writeFileSync(
  corpus,
  '{"id": "a", "title": "Tamm", "text": "A town of bridges."}\n{"id": "b", "contents": "Quorn\\nA river."}\n',
);

function retriever(words: string[]) {
  const printed: string[] = [];
  const noted: string[] = [];
  const interrupt = new AbortController();
  const io = { print: (text: string) => printed.push(text), note: (text: string) => noted.push(text) };
  const exit = runCommandLine(['retriever', ...words], { io, signal: interrupt.signal });
  return { printed, noted, interrupt, exit };
}

describe('verlet retriever serve', () => {
  it('answers queries over a corpus until Ctrl-C', async () => {
    const run = retriever(['serve', corpus, '--port', '0', '--topk', '1']);
    await vi.waitFor(() => expect(run.printed).toHaveLength(1));
    const [, url] = /^2 passages at (http:\S+\/retrieve)$/.exec(run.printed[0]!)!;
    const [hits] = await new RetrieverClient({ url: url! }).retrieve(['which town has bridges'], 1);
    expect(hits).toEqual([
      { document: { id: 'a', contents: '"Tamm"\nA town of bridges.' }, score: expect.any(Number) },
    ]);
    run.interrupt.abort();
    expect(await run.exit).toBe(0);
    await expect(fetch(url!)).rejects.toThrow();
  });

  it.each([
    [['serve', join(folder, 'none.jsonl')], /none\.jsonl/],
    [['serve', corpus, '--host', '0.0.0.0', '--port', '0'], /refusing to listen on 0\.0\.0\.0 without a token/],
    [['serve', corpus, '--topk', '0'], /at least 1/],
    [
      ['serve', corpus, '--embeddings-url', 'http://127.0.0.1:9/v1/embeddings'],
      /embeddings endpoint .* cannot be reached/,
    ],
  ])('says what is wrong with %j', async (words, message) => {
    const run = retriever(words);
    expect(await run.exit).not.toBe(0);
    expect(run.noted.join('\n')).toMatch(message);
  });
});
