import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import type { Metrics, Tracker } from './types.js';

export interface MetricRecord {
  step: number;
  time: string;
  data: Record<string, number>;
}

/** JSON has no NaN and no infinity; as words they survive, as null they would be lost. */
const toJson = (_: string, value: unknown): unknown =>
  typeof value === 'number' && !Number.isFinite(value) ? String(value) : value;

const fromJson = (value: unknown): number =>
  value === 'NaN' ? Number.NaN : value === 'Infinity' ? Infinity : value === '-Infinity' ? -Infinity : Number(value);

/** One line of a metrics file, or null where a killed process left half a line. */
export function parseRecord(line: string): MetricRecord | null {
  try {
    const record = JSON.parse(line) as MetricRecord;
    if (!Number.isInteger(record.step) || typeof record.data !== 'object' || record.data === null) return null;
    const data = Object.fromEntries(Object.entries(record.data).map(([name, value]) => [name, fromJson(value)]));
    return { step: record.step, time: String(record.time), data };
  } catch {
    return null;
  }
}

/** All whole records of a metrics file, in order; none when there is no file. */
export function readRecords(file: string): MetricRecord[] {
  if (!existsSync(file)) return [];
  return readFileSync(file, 'utf8')
    .split('\n')
    .flatMap((line) => parseRecord(line) ?? []);
}

/** One JSON object a line; always written, so that nothing is lost whatever else fails. */
export class JsonlTracker implements Tracker {
  readonly name = 'jsonl';

  constructor(private readonly file: string) {
    mkdirSync(path.dirname(file), { recursive: true });
  }

  /** A new run sets an older file aside; a resumed one drops the steps that it will do again. */
  start(step: number): void {
    if (!existsSync(this.file) || statSync(this.file).size === 0) return;
    if (step === 0) {
      renameSync(this.file, freeName(this.file));
      return;
    }
    const lines = readFileSync(this.file, 'utf8').split('\n');
    const kept = lines.filter((line) => (parseRecord(line)?.step ?? Infinity) <= step);
    const text = kept.map((line) => `${line}\n`).join('');
    if (lines.join('\n').startsWith(text)) truncateSync(this.file, Buffer.byteLength(text));
    else {
      writeFileSync(`${this.file}.tmp`, text);
      renameSync(`${this.file}.tmp`, this.file);
    }
  }

  log(metrics: Metrics, step: number): void {
    const record = { step, time: new Date().toISOString(), data: metrics };
    appendFileSync(this.file, `${JSON.stringify(record, toJson)}\n`);
  }
}

/** `metrics.jsonl` becomes `metrics.before-1.jsonl`, or the next number that is free. */
function freeName(file: string): string {
  const { dir, name, ext } = path.parse(file);
  for (let k = 1; ; k++) {
    const candidate = path.join(dir, `${name}.before-${k}${ext}`);
    if (!existsSync(candidate)) return candidate;
  }
}
