import { mapConcurrently } from '../../protocol/map-concurrently.js';
import { withDeadline } from '../deadline.js';
import type { Scorer } from '../functions/scorer.js';
import type { RewardInput, RewardManager, ScoredSample } from '../types.js';
import { applyErrorPolicy, type ErrorPolicy, failed, scored } from './outcome.js';

export interface NaiveOptions extends ErrorPolicy {
  /** Deadline of one call. It cannot interrupt synchronous code in this thread; `prime` can. */
  timeout_s?: number;
  /** How many asynchronous calls are under way at once. */
  concurrency?: number;
}

/** One call of the reward function per sample. */
export class NaiveRewardManager implements RewardManager {
  constructor(
    private readonly scorer: Scorer,
    private readonly options: NaiveOptions = {},
    readonly name = 'naive',
  ) {}

  async score(samples: readonly RewardInput[]): Promise<ScoredSample[]> {
    const timeoutMs = this.options.timeout_s === undefined ? undefined : this.options.timeout_s * 1000;
    const results = await mapConcurrently(samples, this.options.concurrency ?? 32, async (sample) => {
      try {
        return scored(sample, await withDeadline(this.scorer.scoreOne(sample), timeoutMs, 'the reward function'));
      } catch (error) {
        return failed(sample, error, this.options);
      }
    });
    return applyErrorPolicy(this.name, samples, results, this.options);
  }

  close(): Promise<void> {
    return this.scorer.close();
  }
}
