import { withDeadline } from '../deadline.js';
import type { Scorer } from '../functions/scorer.js';
import { type Clock, RateLimiter, type RateLimits } from '../rate-limiter.js';
import type { RewardInput, RewardManager, ScoredSample } from '../types.js';
import { applyErrorPolicy, type ErrorPolicy, failed, scored } from './outcome.js';

export interface LimitedOptions extends RateLimits, ErrorPolicy {
  /** What a call is expected to cost against `max_tpm`. */
  estimated_tokens_per_request?: number;
  /** Deadline of one call, counted from when the limits let it start. */
  timeout_s?: number;
}

/** For rewards that call a paid or shared service: concurrency, requests and tokens per minute are kept. */
export class LimitedRewardManager implements RewardManager {
  readonly name = 'limited';
  private readonly limiter: RateLimiter;

  constructor(
    private readonly scorer: Scorer,
    private readonly options: LimitedOptions = {},
    clock?: Clock,
  ) {
    this.limiter = new RateLimiter({ ...options, max_concurrent: options.max_concurrent ?? 1 }, clock);
  }

  async score(samples: readonly RewardInput[]): Promise<ScoredSample[]> {
    const { estimated_tokens_per_request: cost = 2_000, timeout_s: timeout = 300 } = this.options;
    const results = await Promise.all(
      samples.map(async (sample) => {
        try {
          return await this.limiter.run(cost, async () =>
            scored(sample, await withDeadline(this.scorer.scoreOne(sample), timeout * 1000, 'the reward function')),
          );
        } catch (error) {
          return failed(sample, error, this.options);
        }
      }),
    );
    return applyErrorPolicy(this.name, samples, results, this.options);
  }

  close(): Promise<void> {
    return this.scorer.close();
  }
}
