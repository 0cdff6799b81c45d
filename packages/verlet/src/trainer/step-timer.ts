import type { DataProto } from '../protocol/index.js';
import { reduceMetrics } from '../workers/metric-list.js';

/** Wall seconds of the named parts of one step; with a trace, each part is also a span on its timeline. */
export class StepTimer {
  readonly seconds: Record<string, number> = {};

  constructor(private readonly trace?: { begin(name: string): () => void }) {}

  async time<T>(name: string, body: () => Promise<T>): Promise<T> {
    const start = performance.now();
    const end = this.trace?.begin(name);
    try {
      return await body();
    } finally {
      end?.();
      this.seconds[name] = (this.seconds[name] ?? 0) + (performance.now() - start) / 1000;
    }
  }
}

/** What ranks reported beside their rows, reduced; taken out, so that it does not travel with the batch. */
export function takeMetrics(output: DataProto): Record<string, number> {
  const lists = (output.metaInfo.metrics ?? {}) as Record<string, number[]>;
  delete output.metaInfo.metrics;
  return reduceMetrics(lists);
}
