/** Policy losses by name. */
import { where } from '@verlet/torch';
import { aggLoss } from './aggregate.js';
import { maskedMean } from './masked.js';
import type { LossResult, PolicyLossInput } from './types.js';

export type PolicyLoss = (input: PolicyLossInput) => LossResult;

const losses = new Map<string, PolicyLoss>();

export function registerPolicyLoss(name: string, loss: PolicyLoss): void {
  losses.set(name, loss);
}

export function policyLoss(input: PolicyLossInput): LossResult {
  const name = input.config.policy_loss.loss_mode;
  const loss = losses.get(name);
  if (!loss) throw new RangeError(`unknown policy loss '${name}'; known: ${[...losses.keys()].join(', ')}`);
  return loss(input);
}

/** PPO's clipped ratio, with a second clip for negative advantages (dual clip). */
registerPolicyLoss(
  'vanilla',
  ({ oldLogProb, logProb, advantages, responseMask, lossAggMode, counts, config, rolloutIsWeights }) => {
    const logRatio = logProb.sub(oldLogProb).clamp(-20, 20);
    const ratio = logRatio.exp();
    const plain = advantages.neg().mul(ratio);
    const clipped = advantages.neg().mul(ratio.clamp(1 - config.clip_ratio_low, 1 + config.clip_ratio_high));
    const upper = plain.maximum(clipped);
    const floor = advantages.neg().mul(config.clip_ratio_c);
    const lower = upper.minimum(floor);
    const negative = advantages.lt(0);
    let losses = where(negative, lower, upper);
    if (rolloutIsWeights) losses = losses.mul(rolloutIsWeights);
    const share = (where_: typeof plain): number => maskedMean(where_.to('float32'), responseMask).item();
    return {
      loss: aggLoss(losses, responseMask, lossAggMode, counts),
      metrics: {
        'actor/pg_clipfrac': share(clipped.gt(plain)),
        'actor/ppo_kl': maskedMean(logRatio.neg(), responseMask).item(),
        'actor/pg_clipfrac_lower': share(upper.gt(floor).logicalAnd(negative)),
      },
    };
  },
);
