import { appendFileSync, mkdirSync } from 'node:fs';
import path from 'node:path';
import type { Tracker } from './index.js';

/** One JSON object a line; always written, so that nothing is lost whatever else fails. */
export class JsonlTracker implements Tracker {
  readonly name = 'jsonl';
  constructor(private readonly file: string) {
    mkdirSync(path.dirname(file), { recursive: true });
  }
  log(metrics: Readonly<Record<string, number>>, step: number): void {
    appendFileSync(this.file, `${JSON.stringify({ step, time: new Date().toISOString(), data: metrics })}\n`);
  }
}
