/** Guards: what watches a run and warns, and what stops it before a broken update. */
import type { DataProto } from '../../protocol/index.js';
import { isNonFinite, keepFailedBatch } from './failed-batch.js';
import { guardMeasures } from './measures.js';
import { GuardMonitor } from './monitor.js';
import type { Metrics } from './rules.js';

export interface GuardOptions {
  runFolder: string;
  /** Shows a warning to the person. */
  warn: (text: string) => void;
}

export class Guards {
  private readonly monitor = new GuardMonitor();

  constructor(private readonly options: GuardOptions) {}

  /** Brings a resumed run up to date with the steps before it; what was said then is not said again. */
  replay(history: readonly Metrics[]): void {
    for (const metrics of history) this.monitor.observe(metrics);
  }

  /** Looks at a finished step: warns, and returns the `guard/` metrics. */
  check(batch: DataProto, metrics: Metrics, step: number): Record<string, number> {
    const measures = guardMeasures(batch);
    const warnings = this.monitor.observe({ ...metrics, ...measures });
    for (const warning of warnings) this.options.warn(`warning at step ${step}: ${warning}.`);
    return { ...measures, 'guard/active_warnings': this.monitor.active };
  }

  /** Runs an update; when its loss or gradient is not finite, keeps the batch and says so. */
  async update<T>(phase: string, step: number, batch: DataProto, body: () => Promise<T>): Promise<T> {
    try {
      return await body();
    } catch (error) {
      if (!isNonFinite(error)) throw error;
      throw keepFailedBatch({ runFolder: this.options.runFolder, step, phase, batch, error });
    }
  }
}

export {
  isNonFinite,
  keepFailedBatch,
  keepFailedExamples,
  nonFiniteRows,
  TrainingDivergedError,
} from './failed-batch.js';
export { constantRewardShare, guardMeasures, repeatedShare } from './measures.js';
export { GuardMonitor } from './monitor.js';
export { RULES, type Rule } from './rules.js';
