/** Losses of the form -weight * A * log p, where the weight carries no gradient. */
import { where, zerosLike } from '@verlet/torch';
import type { LossResult, PolicyLossInput } from '../types.js';
import { clipRange, finish, logRatio } from './ratio.js';
import { registerPolicyLoss } from './registry.js';

registerPolicyLoss('gpg', (input) => finish(input, input.logProb.mul(input.advantages).neg(), {}));

/** Plain REINFORCE; the distance to the policy that sampled is reported. */
export function reinforceLoss(input: PolicyLossInput): LossResult {
  const { logProb, oldLogProb, advantages } = input;
  return finish(input, advantages.neg().mul(logProb), { logRatio: logProb.sub(oldLogProb) });
}

/** CISPO: clipped tokens keep a gradient, only its weight is bounded. */
registerPolicyLoss('cispo', (input) => {
  const { logProb, advantages, config } = input;
  const { low, high } = clipRange(config);
  const difference = logRatio(input).detach();
  const ratio = difference.exp();
  const weight = ratio.clamp(1 - low, 1 + high);
  return finish(input, weight.mul(advantages).mul(logProb).neg(), {
    clipped: ratio.ne(weight),
    logRatio: difference,
    clippedLower: zerosLike(ratio),
  });
});

/** DRO: a quadratic pull towards the old policy instead of a ratio. */
registerPolicyLoss('dro', (input) => {
  const { logProb, oldLogProb, advantages, config } = input;
  const beta = config.policy_loss.dro_beta;
  if (beta === null || beta === undefined || !(beta > 0))
    throw new RangeError(`dro needs a positive actor.policy_loss.dro_beta, got ${beta}`);
  const difference = logProb.sub(oldLogProb);
  const pull = difference.square().mul(beta / 2);
  return finish(input, logProb.mul(advantages).sub(pull).neg(), { logRatio: difference });
});

/**
 * DPPO: a token counts as long as its probability has not moved too far in the direction the advantage pushes. Here
 * `clip_ratio` is the bound of that divergence, not of the ratio, and `clip_ratio_c` bounds the weight; the paper advises a
 * large bound (20), while the actor's default is 3.
 */
function divergenceLoss(input: PolicyLossInput, kind: 'tv' | 'kl'): LossResult {
  const { logProb, oldLogProb, advantages, config } = input;
  const { low, high } = clipRange(config);
  const bound = config.clip_ratio_c ?? 20;
  const difference = logRatio(input).detach();
  const ratio = difference.exp();
  const now = logProb.detach().exp();
  const before = oldLogProb.exp();
  const change = now.sub(before);
  const away =
    kind === 'tv'
      ? { up: change.gt(high), down: change.lt(-low) }
      : (() => {
          const others = before.rsub(1);
          const kl = before
            .mul(oldLogProb.sub(logProb.detach()))
            .add(others.mul(others.add(1e-8).div(now.rsub(1).add(1e-8)).log()));
          return { up: kl.gt(high).logicalAnd(change.gt(0)), down: kl.gt(low).logicalAnd(change.lt(0)) };
        })();
  const outside = where(advantages.gt(0), away.up, away.down);
  const inside = outside.logicalNot();
  const weight = ratio.clamp(null, bound).mul(inside.to(ratio.dtype));
  return finish(input, advantages.neg().mul(weight).mul(logProb), {
    clipped: outside,
    logRatio: difference,
    clippedLower: ratio.gt(bound).logicalAnd(inside),
  });
}

registerPolicyLoss('dppo_tv', (input) => divergenceLoss(input, 'tv'));
registerPolicyLoss('dppo_kl', (input) => divergenceLoss(input, 'kl'));
