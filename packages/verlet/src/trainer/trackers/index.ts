/** Where metrics go. Every tracker gets every step; one that fails is reported and does not stop the run. */
import type { DataProto } from '../../protocol/index.js';
import { ConsoleTracker } from './console.js';
import { JsonlTracker } from './jsonl.js';

export interface Tracker {
  readonly name: string;
  log(metrics: Readonly<Record<string, number>>, step: number): void | Promise<void>;
  finish?(): void | Promise<void>;
}

export class TrackerSet {
  constructor(
    private readonly trackers: readonly Tracker[],
    private readonly onRollouts?: (batch: DataProto, step: number) => Promise<void>,
  ) {}

  log(metrics: Readonly<Record<string, number>>, step: number): void {
    for (const tracker of this.trackers) void this.guard(tracker, () => tracker.log(metrics, step));
  }

  async rollouts(batch: DataProto, step: number): Promise<void> {
    await this.onRollouts?.(batch, step);
  }

  async finish(): Promise<void> {
    for (const tracker of this.trackers) await this.guard(tracker, () => tracker.finish?.());
  }

  private async guard(tracker: Tracker, body: () => void | Promise<void>): Promise<void> {
    try {
      await body();
    } catch (error) {
      console.warn(`tracker ${tracker.name}: ${(error as Error).message}`);
    }
  }
}

export { ConsoleTracker, JsonlTracker };
