/**
 * Finished rows beside the output, one JSON line each, written as they come: what a killed run leaves behind. The first line
 * says what the rows were made with; a run with other settings does not mix its rows into them. Only the place of each line
 * is kept in memory.
 */
import { type FileHandle, open, rm } from 'node:fs/promises';
import { UserError } from '../../config/index.js';

export interface FinishedRow {
  row: number;
  responses: string[];
  log_probs?: number[][];
}

/** What responses depend on, as plain JSON. */
export type Fingerprint = Record<string, unknown>;

const CHUNK = 1 << 20;

export class PartialFile {
  /** Rows that are finished. */
  count = 0;
  /** By row: where its line begins (-1: there is none) and how many bytes it has. */
  private readonly starts: Float64Array;
  private readonly lengths: Float64Array;
  private queue: Promise<void> = Promise.resolve();

  private constructor(
    readonly path: string,
    private readonly handle: FileHandle,
    numRows: number,
    /** Bytes in the file. */
    private size: number,
  ) {
    this.starts = new Float64Array(numRows).fill(-1);
    this.lengths = new Float64Array(numRows);
  }

  static async open(path: string, fingerprint: Fingerprint, numRows: number, restart = false): Promise<PartialFile> {
    if (restart) await rm(path, { force: true });
    const handle = await open(path, 'a+');
    try {
      const partial = new PartialFile(path, handle, numRows, (await handle.stat()).size);
      const before = await partial.readLines();
      if (before === null) await partial.write(fingerprint);
      else checkSame(path, before, fingerprint, partial.count);
      return partial;
    } catch (error) {
      await handle.close();
      throw error;
    }
  }

  has(row: number): boolean {
    return this.starts[row]! >= 0;
  }

  async add(finished: FinishedRow): Promise<void> {
    const { start, length } = await this.write(finished);
    this.place(finished.row, start, length);
  }

  async row(row: number): Promise<FinishedRow> {
    const bytes = await this.read(this.starts[row]!, this.lengths[row]!);
    return JSON.parse(bytes.toString('utf8')) as FinishedRow;
  }

  /** Mean size of a finished row in bytes. */
  get meanRowSize(): number {
    return this.size / Math.max(1, this.count);
  }

  async close(): Promise<void> {
    await this.queue.catch(() => {});
    await this.handle.close();
  }

  private place(row: number, start: number, length: number): void {
    if (!this.has(row)) this.count++;
    this.starts[row] = start;
    this.lengths[row] = length;
  }

  private async read(start: number, length: number): Promise<Buffer> {
    const bytes = Buffer.alloc(length);
    const { bytesRead } = await this.handle.read(bytes, 0, length, start);
    return bytes.subarray(0, bytesRead);
  }

  /** Lines of rows that finish at the same time must not mix. */
  private async write(value: unknown): Promise<{ start: number; length: number }> {
    const line = Buffer.from(`${JSON.stringify(value)}\n`);
    let start = 0;
    this.queue = this.queue.then(async () => {
      await this.handle.appendFile(line);
      start = this.size;
      this.size += line.length;
    });
    await this.queue;
    return { start, length: line.length };
  }

  /** Notes where the rows are. Returns the first line, null when there is none. */
  private async readLines(): Promise<Fingerprint | null> {
    let first: Fingerprint | null = null;
    let start = 0;
    let rest = Buffer.alloc(0);
    for (let position = 0; position < this.size; ) {
      const chunk = await this.read(position, Math.min(CHUNK, this.size - position));
      position += chunk.length;
      rest = Buffer.concat([rest, chunk]);
      for (let end = rest.indexOf(0x0a); end >= 0; end = rest.indexOf(0x0a)) {
        const value = JSON.parse(rest.toString('utf8', 0, end)) as unknown;
        if (first === null) first = value as Fingerprint;
        else this.place((value as FinishedRow).row, start, end + 1);
        start += end + 1;
        rest = rest.subarray(end + 1);
      }
    }
    // A line that a kill cut short is dropped, also from the file, so that the next line does not continue it.
    if (start < this.size) await this.handle.truncate(start);
    this.size = start;
    return first;
  }
}

function checkSame(path: string, before: Fingerprint, now: Fingerprint, count: number): void {
  const changed = Object.keys({ ...before, ...now }).filter(
    (key) => JSON.stringify(before[key]) !== JSON.stringify(now[key]),
  );
  if (changed.length === 0) return;
  const show = (key: string) => `${key} was ${JSON.stringify(before[key])}, is ${JSON.stringify(now[key])}`;
  throw new UserError(
    `${path} holds ${count} rows made with other settings (${changed.map(show).join('; ')}). Use those settings to go ` +
      'on, or --restart to begin anew',
  );
}
