/**
 * Losses that hold back the few tokens whose log-probability and advantage move together most, because those collapse the
 * entropy (Cui et al. 2025). Which tokens these are is decided within what is given: unlike the other losses, the result
 * depends on how a mini-batch is cut.
 */
import { type Tensor, tensor } from '@verlet/torch';
import { chooseRandomly, seededRandom } from '../random.js';
import type { PolicyLossInput } from '../types.js';
import { clipRange, finish, logRatio } from './ratio.js';
import { registerPolicyLoss } from './registry.js';

interface TokenArrays {
  mask: Float64Array;
  /** (A - mean A)(log p - mean log p) per token; meaningless outside the mask. */
  covariance: Float64Array;
  tokens: number;
}

function covariances({ advantages, logProb, responseMask }: PolicyLossInput): TokenArrays {
  const mask = responseMask.toFloat64Array();
  const advantage = advantages.toFloat64Array();
  const logProbs = logProb.detach().toFloat64Array();
  let tokens = 0;
  let advantageSum = 0;
  let logProbSum = 0;
  for (let k = 0; k < mask.length; k++)
    if (mask[k] !== 0) {
      tokens++;
      advantageSum += advantage[k]!;
      logProbSum += logProbs[k]!;
    }
  const advantageMean = advantageSum / (tokens + 1e-8);
  const logProbMean = logProbSum / (tokens + 1e-8);
  return { mask, tokens, covariance: advantage.map((a, k) => (a - advantageMean) * (logProbs[k]! - logProbMean)) };
}

/** 1 at the chosen positions. */
function marked(positions: readonly number[], like: Tensor): Tensor {
  const values = new Float64Array(like.numel);
  for (const position of positions) values[position] = 1;
  return tensor(values, { shape: like.shape, dtype: like.dtype, device: like.device });
}

const share = (ratio: number, tokens: number): number => Math.max(1, Math.trunc(ratio * tokens));

/** Clip-Cov: a random few of the tokens with covariance inside the bounds lose their loss. */
registerPolicyLoss('clip_cov', (input) => {
  const { advantages, config, random = seededRandom(42) } = input;
  const { clip_cov_ratio: ratioOfTokens, clip_cov_lb: lower, clip_cov_ub: upper } = config.policy_loss;
  if (!(ratioOfTokens > 0)) throw new RangeError(`clip_cov_ratio must be positive, got ${ratioOfTokens}`);
  const { low, high } = clipRange(config);
  const difference = logRatio(input);
  const ratio = difference.exp();
  const plain = advantages.neg().mul(ratio);
  const clipped = advantages.neg().mul(ratio.clamp(1 - low, 1 + high));
  const clippedAlready = clipped.gt(plain).toUint8Array();
  const { mask, covariance, tokens } = covariances(input);
  const candidates: number[] = [];
  for (let k = 0; k < mask.length; k++)
    if (mask[k] !== 0 && !clippedAlready[k] && covariance[k]! > lower && covariance[k]! < upper) candidates.push(k);
  const chosen = marked(chooseRandomly(candidates, share(ratioOfTokens, tokens), random), difference);
  return finish(input, plain.maximum(clipped).mul(chosen.rsub(1)), { clipped: chosen, logRatio: difference });
});

/** KL-Cov: the tokens of largest covariance pay for moving away from the old policy. */
registerPolicyLoss('kl_cov', (input) => {
  const { advantages, config } = input;
  const { kl_cov_ratio: ratioOfTokens, ppo_kl_coef: coefficient } = config.policy_loss;
  if (!(ratioOfTokens > 0)) throw new RangeError(`kl_cov_ratio must be positive, got ${ratioOfTokens}`);
  const difference = logRatio(input);
  const distance = difference.abs();
  const { mask, covariance, tokens } = covariances(input);
  const order = [...mask.keys()].filter((k) => mask[k] !== 0).sort((a, b) => covariance[b]! - covariance[a]! || a - b);
  const chosen = marked(order.slice(0, share(ratioOfTokens, tokens)), difference);
  const losses = advantages.neg().mul(difference.exp()).add(distance.mul(chosen).mul(coefficient));
  return finish(input, losses, { logRatio: distance.neg() });
});
