import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { ValidationExample } from '../validation.js';
import type { Metrics, Tracker } from './types.js';

/** Enough for a report to choose from. */
const KEPT = 64;

export interface KeptExamples {
  step: number;
  examples: ValidationExample[];
}

const fileOf = (runFolder: string, which: 'first' | 'last'): string => path.join(runFolder, `validation_${which}.json`);

export function readExamples(runFolder: string, which: 'first' | 'last'): KeptExamples | null {
  const file = fileOf(runFolder, which);
  if (!existsSync(file)) return null;
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as KeptExamples;
  } catch {
    return null;
  }
}

/** Keeps the first and the latest validation's answers in the run folder, for the report, over resumes. */
export class ValidationExamples implements Tracker {
  readonly name = 'validation examples';

  constructor(
    private readonly runFolder: string,
    private readonly examples: () => readonly ValidationExample[],
    /** Told about every validation. */
    private readonly onValidation: (examples: readonly ValidationExample[], step: number) => void,
  ) {}

  start(step: number): void {
    if (step > 0) return;
    for (const which of ['first', 'last'] as const) rmSync(fileOf(this.runFolder, which), { force: true });
  }

  log(metrics: Metrics, step: number): void {
    if (!Object.keys(metrics).some((name) => name.startsWith('val-core/'))) return;
    const examples = this.examples();
    if (examples.length === 0) return;
    if (!existsSync(fileOf(this.runFolder, 'first'))) this.write('first', examples, step);
    this.write('last', examples, step);
    this.onValidation(examples, step);
  }

  private write(which: 'first' | 'last', examples: readonly ValidationExample[], step: number): void {
    const file = fileOf(this.runFolder, which);
    writeFileSync(`${file}.tmp`, JSON.stringify({ step, examples: examples.slice(0, KEPT) }));
    renameSync(`${file}.tmp`, file);
  }
}
