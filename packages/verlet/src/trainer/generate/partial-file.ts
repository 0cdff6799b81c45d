/**
 * Finished rows beside the output, one JSON line each, written as they come: what a killed run leaves behind. The first line
 * says what the rows were made with; a run with other settings does not mix its rows into them.
 */
import { existsSync } from 'node:fs';
import { type FileHandle, open, readFile, rm, truncate } from 'node:fs/promises';
import { UserError } from '../../config/index.js';

export interface FinishedRow {
  row: number;
  responses: string[];
  log_probs?: number[][];
}

/** What responses depend on, as plain JSON. */
export type Fingerprint = Record<string, unknown>;

export class PartialFile {
  readonly finished = new Map<number, FinishedRow>();
  private queue: Promise<void> = Promise.resolve();

  private constructor(
    readonly path: string,
    private readonly handle: FileHandle,
  ) {}

  static async open(path: string, fingerprint: Fingerprint, restart = false): Promise<PartialFile> {
    if (restart) await rm(path, { force: true });
    const rows = existsSync(path) ? await readRows(path, fingerprint) : null;
    const partial = new PartialFile(path, await open(path, 'a'));
    if (rows === null) await partial.write(fingerprint);
    else for (const row of rows) partial.finished.set(row.row, row);
    return partial;
  }

  async add(row: FinishedRow): Promise<void> {
    this.finished.set(row.row, row);
    await this.write(row);
  }

  async close(): Promise<void> {
    await this.queue;
    await this.handle.close();
  }

  /** Lines of rows that finish at the same time must not mix. */
  private write(value: unknown): Promise<void> {
    this.queue = this.queue.then(async () => {
      await this.handle.appendFile(`${JSON.stringify(value)}\n`);
    });
    return this.queue;
  }
}

async function readRows(path: string, fingerprint: Fingerprint): Promise<FinishedRow[] | null> {
  const bytes = await readFile(path);
  // A line that a kill cut short is dropped, also from the file, so that the next line does not continue it.
  const whole = bytes.lastIndexOf(0x0a) + 1;
  if (whole < bytes.length) await truncate(path, whole);
  const lines = bytes
    .subarray(0, whole)
    .toString('utf8')
    .split('\n')
    .filter((line) => line !== '');
  if (lines.length === 0) return null;
  const before = JSON.parse(lines[0]!) as Fingerprint;
  const changed = Object.keys({ ...before, ...fingerprint }).filter(
    (key) => JSON.stringify(before[key]) !== JSON.stringify(fingerprint[key]),
  );
  if (changed.length > 0) {
    const show = (key: string) => `${key} was ${JSON.stringify(before[key])}, is ${JSON.stringify(fingerprint[key])}`;
    throw new UserError(
      `${path} holds ${lines.length - 1} rows made with other settings (${changed.map(show).join('; ')}). Use those ` +
        'settings to go on, or --restart to begin anew',
    );
  }
  return lines.slice(1).map((line) => JSON.parse(line) as FinishedRow);
}
