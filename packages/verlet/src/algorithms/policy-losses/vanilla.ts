import { where } from '@verlet/torch';
import type { LossResult, PolicyLossInput } from '../types.js';
import { clipRange, finish, logRatio } from './ratio.js';
import { registerPolicyLoss } from './registry.js';

/** PPO's clipped ratio, with a second clip for negative advantages (dual clip). */
export function vanillaLoss(input: PolicyLossInput): LossResult {
  const { advantages, config } = input;
  const { low, high } = clipRange(config);
  const bound = config.clip_ratio_c ?? 3;
  if (!(bound > 1)) throw new RangeError(`clip_ratio_c must be greater than 1, got ${bound}`);
  const difference = logRatio(input);
  const ratio = difference.exp();
  const gain = advantages.neg();
  const plain = gain.mul(ratio);
  const clipped = gain.mul(ratio.clamp(1 - low, 1 + high));
  const upper = plain.maximum(clipped);
  const floor = gain.mul(bound);
  const negative = advantages.lt(0);
  return finish(input, where(negative, upper.minimum(floor), upper), {
    clipped: clipped.gt(plain),
    logRatio: difference,
    clippedLower: upper.gt(floor).logicalAnd(negative),
  });
}

registerPolicyLoss('vanilla', vanillaLoss);
