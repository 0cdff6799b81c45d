/** Scores trajectories as soon as they end, while others still generate: slow rewards (judges, sandboxes) cost less or nothing. */
import type { RewardInput, RewardManager, ScoredSample } from '../rewards/index.js';

/** Managers whose score of a sample does not depend on its neighbours. Others, and those of one's own, get whole batches. */
const ONE_BY_ONE = new Set(['naive', 'limited', 'prime', 'dapo', 'hybrid']);

interface Waiting {
  input: RewardInput;
  resolve: (sample: ScoredSample) => void;
  reject: (error: unknown) => void;
}

export class EarlyScores {
  private readonly started = new Map<string, Promise<ScoredSample>>();
  private waiting: Waiting[] = [];

  constructor(private readonly manager: RewardManager) {}

  get isPossible(): boolean {
    return ONE_BY_ONE.has(this.manager.name);
  }

  start(id: string, input: RewardInput): void {
    const sample = new Promise<ScoredSample>((resolve, reject) => {
      this.waiting.push({ input, resolve, reject });
    });
    // Whoever scores the batch hears of a failure; until then nobody listens.
    sample.catch(() => {});
    this.started.set(id, sample);
    // Those that end with the same engine step share a call, and a warning when they fail.
    if (this.waiting.length === 1) setImmediate(() => void this.flush());
  }

  /** The score that was started for the trajectory, once. */
  take(id: string): Promise<ScoredSample> | undefined {
    const sample = this.started.get(id);
    this.started.delete(id);
    return sample;
  }

  private async flush(): Promise<void> {
    const waiting = this.waiting;
    this.waiting = [];
    try {
      const samples = await this.manager.score(waiting.map(({ input }) => input));
      for (const [k, { resolve }] of waiting.entries()) resolve(samples[k]!);
    } catch (error) {
      for (const { reject } of waiting) reject(error);
    }
  }
}
