import { overlongPenalty } from '../scores/index.js';
import type { RewardInput, RewardManager, ScoredSample } from '../types.js';
import { responseLength } from './outcome.js';

export interface OverlongBuffer {
  enable?: boolean;
  /** Tokens before `max_resp_len` in which the penalty grows from 0 to `penalty_factor`. */
  len: number;
  penalty_factor: number;
  /** Report `overlong_reward` and `overlong` per sample. */
  log?: boolean;
}

export interface DapoOptions {
  max_resp_len: number;
  overlong_buffer_cfg: OverlongBuffer;
}

/** Any manager plus DAPO's soft penalty on responses that run into the length limit. */
export class DapoRewardManager implements RewardManager {
  readonly name = 'dapo';

  constructor(
    private readonly inner: RewardManager,
    private readonly options: DapoOptions,
  ) {
    const { max_resp_len: longest, overlong_buffer_cfg: buffer } = options;
    if (buffer.enable !== false && !(buffer.len > 0 && buffer.len <= longest)) {
      throw new RangeError(
        `overlong_buffer.len must be between 1 and max_resp_len (${longest}), but it is ${buffer.len}`,
      );
    }
  }

  async score(samples: readonly RewardInput[]): Promise<ScoredSample[]> {
    const results = await this.inner.score(samples);
    const { max_resp_len: longest, overlong_buffer_cfg: buffer } = this.options;
    if (buffer.enable === false) return results;
    return results.map((result, index) => {
      const penalty = overlongPenalty(responseLength(samples[index]!), longest, buffer.len, buffer.penalty_factor) || 0;
      const extras = buffer.log ? { ...result.extras, overlong_reward: penalty, overlong: penalty < 0 } : result.extras;
      return { ...result, score: result.score + penalty, extras };
    });
  }

  close(): Promise<void> {
    return this.inner.close();
  }
}
