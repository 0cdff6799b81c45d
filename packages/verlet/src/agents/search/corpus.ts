import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import type { CorpusDocument } from './contract.js';

/**
 * Reads a JSONL corpus, one document per line: `{"id", "contents"}` (Search-R1's) or `{"id", "title", "text"}`.
 * A line that is neither stops the reading with its number: a corpus with holes gives silently worse answers.
 */
export async function* readCorpus(file: string): AsyncGenerator<CorpusDocument> {
  const lines = createInterface({ input: createReadStream(file, 'utf8'), crlfDelay: Number.POSITIVE_INFINITY });
  let number = 0;
  for await (const line of lines) {
    number++;
    if (line.trim() === '') continue;
    let value: unknown;
    try {
      value = JSON.parse(line);
    } catch (error) {
      throw new Error(`${file}:${number}: not valid JSON: ${(error as Error).message}`);
    }
    const { id, contents, title, text } = (value ?? {}) as Record<string, unknown>;
    const whole =
      typeof contents === 'string' ? contents : typeof text === 'string' ? `"${title ?? ''}"\n${text}` : undefined;
    if (whole === undefined) throw new Error(`${file}:${number}: a document needs "contents", or "title" and "text"`);
    yield { id: String(id ?? number - 1), contents: whole };
  }
  if (number === 0) throw new Error(`${file} is empty: a corpus has one JSON document per line`);
}
