import type { ResolveOptions } from '../../models/hub/index.js';
import { DataError } from './errors.js';
import { JsonLinesSource, openJson } from './json-read.js';
import { ParquetSource } from './parquet-read.js';
import { expandPaths } from './paths.js';
import { RowSpill } from './row-spill.js';
import type { Row, RowSource, TableSchema } from './types.js';

export interface OpenTableOptions extends ResolveOptions {
  /** Decoded rows kept in memory, at least one block. */
  cacheRows?: number;
}

interface Block {
  source: RowSource;
  blockOfSource: number;
  start: number;
  rows: number;
}

/** Several files as one numbered sequence of rows, decoded block by block when asked for. */
export class Table {
  readonly numRows: number;
  /** Columns of all files; a file may lack some. */
  readonly schema: TableSchema;
  private readonly blocks: Block[] = [];
  private readonly sourceStarts: number[] = [];
  // Insertion order is age: the first entry is the one used longest ago.
  private readonly cache = new Map<number, Promise<Row[]>>();
  private cachedRows = 0;
  private lastMiss = -1;
  /** Rows decoded out of order. */
  private strayRows = 0;
  private spill: Promise<RowSpill> | null = null;

  constructor(
    readonly sources: readonly RowSource[],
    private readonly cacheRows: number,
  ) {
    let start = 0;
    for (const source of sources) {
      this.sourceStarts.push(start);
      source.blockRows.forEach((rows, blockOfSource) => {
        this.blocks.push({ source, blockOfSource, start, rows });
        start += rows;
      });
    }
    this.numRows = start;
    this.schema = Object.assign({}, ...sources.map((source) => source.schema).reverse()) as TableSchema;
  }

  get columns(): string[] {
    return Object.keys(this.schema);
  }

  /** The file that holds a row, and its number there. */
  locate(index: number): { file: string; row: number } {
    let source = this.sourceStarts.length - 1;
    while (source > 0 && (this.sourceStarts[source] as number) > index) source--;
    return { file: (this.sources[source] as RowSource).path, row: index - (this.sourceStarts[source] as number) };
  }

  /** One row, whole. Rows are shared with the cache: copy before changing. */
  async row(index: number): Promise<Row> {
    this.checkRange(index, index + 1);
    if (this.isThrashing) {
      this.spill ??= RowSpill.write(this.rows());
      return (await this.spill).row(index);
    }
    const at = this.blockAt(index);
    const block = this.blocks[at] as Block;
    return (await this.readBlock(at))[index - block.start] as Row;
  }

  /** Rows in order. A block is dropped when its rows have been taken, so any amount streams through. */
  async *rows(start = 0, end = this.numRows): AsyncGenerator<Row> {
    this.checkRange(start, end);
    if (start >= end) return;
    for (let at = this.blockAt(start); at < this.blocks.length; at++) {
      const block = this.blocks[at] as Block;
      if (block.start >= end) return;
      const rows = await (this.cache.get(at) ?? block.source.readBlock(block.blockOfSource));
      for (let i = Math.max(0, start - block.start); i < Math.min(block.rows, end - block.start); i++)
        yield rows[i] as Row;
    }
  }

  async close(): Promise<void> {
    this.cache.clear();
    await (await this.spill)?.close();
    await Promise.all(this.sources.map((source) => source.close()));
  }

  /**
   * Shuffled reading of more than the cache holds would decode a block per row. Once a quarter of the table has been
   * decoded out of order, rows are written to a temporary file where each is found directly.
   */
  private get isThrashing(): boolean {
    return this.spill !== null || (this.numRows > this.cacheRows && 4 * this.strayRows > this.numRows);
  }

  private readBlock(at: number): Promise<Row[]> {
    let rows = this.cache.get(at);
    if (rows) {
      this.cache.delete(at);
      this.cache.set(at, rows);
      return rows;
    }
    const { source, blockOfSource, rows: numRows } = this.blocks[at] as Block;
    rows = source.readBlock(blockOfSource);
    this.cache.set(at, rows);
    this.cachedRows += numRows;
    if (at !== this.lastMiss + 1) this.strayRows += numRows;
    this.lastMiss = at;
    rows.catch(() => this.forget(at));
    for (const oldest of this.cache.keys()) {
      if (this.cachedRows <= this.cacheRows || oldest === at) break;
      this.forget(oldest);
    }
    return rows;
  }

  private forget(at: number): void {
    if (this.cache.delete(at)) this.cachedRows -= (this.blocks[at] as Block).rows;
  }

  private blockAt(index: number): number {
    let low = 0;
    let high = this.blocks.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((this.blocks[middle] as Block).start <= index) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  private checkRange(start: number, end: number): void {
    if (!(start >= 0 && end <= this.numRows)) {
      throw new RangeError(`rows ${start} to ${end} asked of a table with ${this.numRows} rows`);
    }
  }
}

/**
 * Opens Parquet, JSON and JSON-lines files, folders of them, globs and `hf://datasets/...` paths as one table.
 *
 * @example
 * const table = await openTable('data/gsm8k/*.parquet');
 * console.log(table.numRows, await table.row(0));
 */
export async function openTable(paths: string | readonly string[], options: OpenTableOptions = {}): Promise<Table> {
  const { cacheRows = 100_000, ...resolveOptions } = options;
  const sources: RowSource[] = [];
  try {
    for (const file of await expandPaths(paths, resolveOptions)) sources.push(await openSource(file));
  } catch (error) {
    await Promise.all(sources.map((source) => source.close()));
    throw error;
  }
  return new Table(sources, cacheRows);
}

async function openSource(path: string): Promise<RowSource> {
  const extension = /\.[^./\\]*$/.exec(path)?.[0].toLowerCase();
  if (extension === '.parquet') return ParquetSource.open(path);
  if (extension === '.jsonl' || extension === '.ndjson') return JsonLinesSource.open(path);
  if (extension === '.json') return openJson(path);
  throw new DataError('the kind of file is unknown; .parquet, .jsonl and .json are read', { file: path });
}
