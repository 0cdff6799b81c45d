/** The rows with their responses, in order, from the finished lines to the file that was asked for: a row group at a time. */
import { open, rename } from 'node:fs/promises';
import { inferSchema, type Row, type Table, type TableSchema, writeParquet } from '../../data/index.js';
import { type Benchmark, prepareBenchmarkRow } from './benchmarks.js';
import type { PartialFile } from './partial-file.js';

const ROW_GROUP_BYTES = 16 << 20;
/** Columns of files without declared types are read off this many rows. */
const INFER_ROWS = 20_000;

export interface OutputOptions {
  path: string;
  responseKey: string;
  hasLogProbs: boolean;
}

export async function writeOutput(
  table: Table,
  benchmark: Benchmark | null,
  partial: PartialFile,
  { path, responseKey, hasLogProbs }: OutputOptions,
): Promise<void> {
  const logProbsKey = `${responseKey}_log_probs`;
  async function* rows(): AsyncGenerator<Row> {
    let index = 0;
    for await (const row of promptRows(table, benchmark)) {
      const { responses, log_probs } = await partial.row(index++);
      yield { ...row, [responseKey]: responses, ...(hasLogProbs ? { [logProbsKey]: log_probs } : {}) };
    }
  }
  if (path.endsWith('.jsonl')) return writeJsonLines(path, rows());
  const texts = { kind: 'list', element: { kind: 'string' } } as const;
  const numbers = { kind: 'list', element: { kind: 'list', element: { kind: 'double' } } } as const;
  const schema: TableSchema = {
    ...(await schemaOf(table, benchmark)),
    [responseKey]: texts,
    ...(hasLogProbs ? { [logProbsKey]: numbers } : {}),
  };
  const rowGroupSize = Math.min(5000, Math.max(1, Math.floor(ROW_GROUP_BYTES / partial.meanRowSize)));
  await writeParquet(path, rows(), { schema, mixed: 'json', rowGroupSize });
}

/** The rows of a file, as published benchmarks have to be made into rows with prompts. */
export async function* promptRows(table: Table, benchmark: Benchmark | null): AsyncGenerator<Row> {
  let index = 0;
  for await (const row of table.rows()) {
    yield benchmark ? prepareBenchmarkRow(benchmark, row, index, table.locate(index)) : row;
    index++;
  }
}

/** Types that a file declares are kept; others have to be inferred from the values. */
async function schemaOf(table: Table, benchmark: Benchmark | null): Promise<TableSchema> {
  if (!benchmark && table.sources.every(({ path }) => path.endsWith('.parquet'))) return table.schema;
  const sample: Row[] = [];
  for await (const row of promptRows(table, benchmark)) {
    sample.push(row);
    if (sample.length >= INFER_ROWS) break;
  }
  return inferSchema(sample, { mixed: 'json', file: table.sources[0]?.path });
}

export async function writeJsonLines(file: string, rows: AsyncIterable<Row> | Iterable<Row>): Promise<void> {
  const temporary = `${file}.${process.pid}.tmp`;
  const handle = await open(temporary, 'w');
  try {
    const plain = (_key: string, value: unknown) => (typeof value === 'bigint' ? String(value) : value);
    for await (const row of rows) await handle.appendFile(`${JSON.stringify(row, plain)}\n`);
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(temporary, file);
}
