import type { DataProto } from '../../protocol/index.js';
import type { ValidationExample } from '../validation.js';
import type { Metrics, Tracker } from './types.js';

/** How long the end of a run waits for one tracker. */
const FINISH_SECONDS = 60;

/** All trackers of a run. One that fails or is slow is reported and neither stops nor delays the others or the run. */
export class TrackerSet {
  private readonly pending = new Map<Tracker, Promise<void>>();
  private readonly reported = new Set<string>();

  constructor(
    private readonly trackers: readonly Tracker[],
    private readonly onRollouts?: (batch: DataProto, step: number) => Promise<void>,
    private readonly finishSeconds = FINISH_SECONDS,
  ) {}

  /** Says where the run starts, before anything is logged. Waited for: a resumed run first drops what it will repeat. */
  async start(step: number): Promise<void> {
    for (const tracker of this.trackers) this.call(tracker, () => tracker.start?.(step));
    await this.settled();
  }

  log(metrics: Metrics, step: number): void {
    for (const tracker of this.trackers) this.call(tracker, () => tracker.log(metrics, step));
  }

  generations(examples: readonly ValidationExample[], step: number): void {
    for (const tracker of this.trackers) this.call(tracker, () => tracker.generations?.(examples, step));
  }

  /** Shown by the console, or by standard error when there is none. */
  notice(text: string): void {
    const listeners = this.trackers.filter((tracker) => tracker.notice);
    if (listeners.length === 0) process.stderr.write(`${text}\n`);
    for (const tracker of listeners) this.call(tracker, () => tracker.notice?.(text));
  }

  async rollouts(batch: DataProto, step: number): Promise<void> {
    try {
      await this.onRollouts?.(batch, step);
    } catch (error) {
      this.report('rollouts', `cannot write rollouts of step ${step}: ${(error as Error).message}`);
    }
  }

  async finish(outcome: 'finished' | 'interrupted' | 'failed' = 'finished'): Promise<void> {
    for (const tracker of this.trackers) this.call(tracker, () => tracker.finish?.(outcome));
    await this.settled();
  }

  /** Runs a call at once, unless an earlier one of the same tracker is still waiting for something. */
  private call(tracker: Tracker, body: () => void | Promise<void>): void {
    const failed = (error: unknown): void =>
      this.report(tracker.name, `tracker ${tracker.name}: ${(error as Error).message}`);
    const before = this.pending.get(tracker);
    let running: Promise<void>;
    if (before) running = before.then(body).catch(failed);
    else {
      try {
        const called = body();
        if (!(called instanceof Promise)) return;
        running = called.catch(failed);
      } catch (error) {
        failed(error);
        return;
      }
    }
    this.pending.set(tracker, running);
    void running.then(() => {
      if (this.pending.get(tracker) === running) this.pending.delete(tracker);
    });
  }

  private async settled(): Promise<void> {
    for (const [tracker, running] of [...this.pending]) {
      let timer: NodeJS.Timeout | undefined;
      const late = new Promise<'late'>((resolve) => {
        timer = setTimeout(() => resolve('late'), this.finishSeconds * 1000);
      });
      const outcome = await Promise.race([running, late]);
      clearTimeout(timer);
      if (outcome === 'late')
        this.report(tracker.name, `tracker ${tracker.name}: no answer in ${this.finishSeconds} s; going on without it`);
    }
  }

  /** The same trouble every step is said once. */
  private report(source: string, text: string): void {
    if (this.reported.has(text)) return;
    this.reported.add(text);
    const console = this.trackers.find((tracker) => tracker.notice && tracker.name !== source);
    try {
      if (console) console.notice?.(text);
      else process.stderr.write(`${text}\n`);
    } catch {
      process.stderr.write(`${text}\n`);
    }
  }
}
