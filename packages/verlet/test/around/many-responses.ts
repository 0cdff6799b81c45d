/** Run by a test with little memory: finishes many long rows, opens the file again, writes and reads the output. */
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { openTable } from '../../src/data/index.js';
import { PartialFile } from '../../src/trainer/generate/partial-file.js';
import { writeOutput } from '../../src/trainer/generate/write-output.js';

const folder = process.argv[2]!;
mkdirSync(folder, { recursive: true });
const numRows = 1500;
const prompts = Array.from({ length: numRows }, (_, k) => JSON.stringify({ prompt: `${k}?` }));
writeFileSync(path.join(folder, 'prompts.jsonl'), prompts.join('\n'));
const responseOf = (row: number): string => `${row} `.padEnd(100_000, 'x');

const open = () => PartialFile.open(path.join(folder, 'partial.jsonl'), { made: 'here' }, numRows);
const first = await open();
for (let row = numRows - 1; row >= 0; row--) await first.add({ row, responses: [responseOf(row)] });
await first.close();

const partial = await open();
const table = await openTable(path.join(folder, 'prompts.jsonl'));
const output = path.join(folder, 'output.parquet');
await writeOutput(table, null, partial, { path: output, responseKey: 'responses', hasLogProbs: false });
await partial.close();
await table.close();

const written = await openTable(output);
let row = 0;
for await (const { prompt, responses } of written.rows()) {
  if (prompt !== `${row}?` || (responses as string[])[0] !== responseOf(row))
    throw new Error(`row ${row} is not whole`);
  row++;
}
await written.close();
if (row !== numRows) throw new Error(`${row} rows`);
