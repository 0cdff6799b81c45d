/** What the dashboard reads of a run folder. Files are those that a run writes; all of them may be missing or growing. */
import { createReadStream, existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { open } from 'node:fs/promises';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { type MetricRecord, parseRecord } from '../../trainer/trackers/jsonl.js';

export type DumpKind = 'rollouts' | 'validation';

interface DumpFolders {
  trainer?: { rollout_data_dir?: string | null; validation_data_dir?: string | null; experiment_name?: string };
}

export class RunFiles {
  constructor(
    readonly folder: string,
    readonly name: string,
  ) {}

  get metricsFile(): string {
    return path.join(this.folder, 'metrics.jsonl');
  }

  config(): DumpFolders & Record<string, unknown> {
    try {
      return JSON.parse(readFileSync(path.join(this.folder, 'config.json'), 'utf8')) as DumpFolders &
        Record<string, unknown>;
    } catch {
      return {};
    }
  }

  /** The records from a byte of the file on, the byte after the last whole line, and whether the file was cut before. */
  async records(from = 0): Promise<{ records: MetricRecord[]; next: number; isCut: boolean }> {
    if (!existsSync(this.metricsFile)) return { records: [], next: 0, isCut: from > 0 };
    const { size } = statSync(this.metricsFile);
    const handle = await open(this.metricsFile, 'r');
    try {
      // A resumed run cuts the file; when a line no longer ends where we stopped, begin again.
      const before = Buffer.alloc(1);
      const isCut = from > 0 && ((await handle.read(before, 0, 1, from - 1)).bytesRead === 0 || before[0] !== 0x0a);
      const start = isCut ? 0 : from;
      const bytes = Buffer.alloc(size - start);
      const { bytesRead } = await handle.read(bytes, 0, bytes.length, start);
      const end = bytes.subarray(0, bytesRead).lastIndexOf(0x0a) + 1;
      const records = bytes
        .subarray(0, end)
        .toString('utf8')
        .split('\n')
        .flatMap((line) => parseRecord(line) ?? []);
      return { records, next: start + end, isCut };
    } finally {
      await handle.close();
    }
  }

  private dumpFolder(kind: DumpKind): string {
    const { trainer } = this.config();
    const configured = kind === 'rollouts' ? trainer?.rollout_data_dir : trainer?.validation_data_dir;
    return configured && existsSync(configured) ? configured : path.join(this.folder, kind);
  }

  /** Steps of which there is a dump, in order. */
  dumpedSteps(kind: DumpKind): number[] {
    const folder = this.dumpFolder(kind);
    if (!existsSync(folder)) return [];
    return readdirSync(folder)
      .flatMap((name) => /^(\d+)\.jsonl$/.exec(name)?.[1] ?? [])
      .map(Number)
      .sort((a, b) => a - b);
  }

  /** Some rows of a step's dump, and how many it has. Read line by line: dumps can be large. */
  async dumpedRows(
    kind: DumpKind,
    step: number,
    offset: number,
    limit: number,
  ): Promise<{ rows: unknown[]; total: number }> {
    const file = path.join(this.dumpFolder(kind), `${step}.jsonl`);
    if (!existsSync(file)) return { rows: [], total: 0 };
    const rows: unknown[] = [];
    let total = 0;
    for await (const line of createInterface({ input: createReadStream(file), crlfDelay: Infinity })) {
      if (line === '') continue;
      if (total >= offset && rows.length < limit) rows.push(JSON.parse(line));
      total++;
    }
    return { rows, total };
  }
}
