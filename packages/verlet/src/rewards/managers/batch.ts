import { withDeadline } from '../deadline.js';
import type { Scorer } from '../functions/scorer.js';
import type { RewardInput, RewardManager, ScoredSample } from '../types.js';
import { applyErrorPolicy, type ErrorPolicy, failed, scored } from './outcome.js';

export interface BatchOptions extends ErrorPolicy {
  /** Deadline of the one call. */
  timeout_s?: number;
}

/** One call of the reward function for all samples: for rewards that compare samples, or that batch well. */
export class BatchRewardManager implements RewardManager {
  readonly name = 'batch';

  constructor(
    private readonly scorer: Scorer,
    private readonly options: BatchOptions = {},
  ) {}

  async score(samples: readonly RewardInput[]): Promise<ScoredSample[]> {
    if (samples.length === 0) return [];
    const timeoutMs = this.options.timeout_s === undefined ? undefined : this.options.timeout_s * 1000;
    let results: ScoredSample[];
    try {
      const values = await withDeadline(this.scorer.scoreMany(samples), timeoutMs, 'the batch reward function');
      results = samples.map((sample, index) => {
        try {
          return scored(sample, values[index]!);
        } catch (error) {
          return failed(sample, error, this.options);
        }
      });
    } catch (error) {
      results = samples.map((sample) => failed(sample, error, this.options));
    }
    return applyErrorPolicy(this.name, samples, results, this.options);
  }

  close(): Promise<void> {
    return this.scorer.close();
  }
}
