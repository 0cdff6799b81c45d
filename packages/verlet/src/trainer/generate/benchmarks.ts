/** Published benchmark files as they are downloaded, told by their columns and turned into rows with prompt and truth. */
import { type DataLocation, PREPARERS, type Row, type Table } from '../../data/index.js';

export interface Benchmark {
  name: string;
  /** Columns that tell it. */
  columns: readonly string[];
  preparer: keyof typeof PREPARERS & string;
  dataSource: string;
}

/** In the order in which they are tried: the more telling columns first. */
export const BENCHMARKS: readonly Benchmark[] = [
  {
    name: 'MATH-500',
    columns: ['problem', 'solution', 'answer', 'unique_id'],
    preparer: 'math',
    dataSource: 'HuggingFaceH4/MATH-500',
  },
  { name: 'AIME-2024', columns: ['ID', 'Problem', 'Answer'], preparer: 'aime', dataSource: 'aime_2024' },
  {
    name: 'MATH',
    columns: ['problem', 'solution', 'level', 'type'],
    preparer: 'math',
    dataSource: 'DigitalLearningGmbH/MATH-lighteval',
  },
  { name: 'GSM8K', columns: ['question', 'answer'], preparer: 'gsm8k', dataSource: 'openai/gsm8k' },
];

/** The benchmark whose published columns a table has; null when it has prompts already or is something else. */
export function benchmarkOf(table: Table, promptKey: string): Benchmark | null {
  if (table.columns.includes(promptKey)) return null;
  return BENCHMARKS.find(({ columns }) => columns.every((name) => table.columns.includes(name))) ?? null;
}

export function prepareBenchmarkRow(benchmark: Benchmark, row: Row, index: number, where: DataLocation): Row {
  const { preparer, dataSource } = benchmark;
  return { ...PREPARERS[preparer]!.prepare(row, index, where, { split: 'test', dataSource }) };
}
