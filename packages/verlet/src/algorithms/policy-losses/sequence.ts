/** Losses on the ratio of whole sequences, and SAPO, which is averaged like them. */
import { type Tensor, where, zerosLike } from '@verlet/torch';
import { maskedSum } from '../masked.js';
import type { GlobalCounts, LossResult } from '../types.js';
import { clipRange, finish, logRatio, lossMetrics } from './ratio.js';
import { registerPolicyLoss } from './registry.js';

/**
 * GSPO: the geometric mean of the token ratios is the ratio of the sequence. Every token carries it as a value with its own
 * gradient, so that advantages may differ between tokens.
 */
registerPolicyLoss('gspo', (input) => {
  const { logProb, oldLogProb, advantages, responseMask, config } = input;
  const { low, high } = clipRange(config);
  const difference = logProb.detach().sub(oldLogProb);
  const sequence = maskedSum(difference, responseMask, -1).div(responseMask.sum(-1).clamp(1)).unsqueeze(-1);
  const ratio = logProb.sub(logProb.detach()).add(sequence).clamp(null, 10).exp();
  const plain = advantages.neg().mul(ratio);
  const clipped = advantages.neg().mul(ratio.clamp(1 - low, 1 + high));
  return finish(
    input,
    plain.maximum(clipped),
    { clipped: clipped.gt(plain), logRatio: difference, clippedLower: zerosLike(difference) },
    'seq-mean-token-mean',
  );
});

/** SAPO: a sigmoid around ratio 1 instead of a clip, steeper for advantages that are not positive. */
registerPolicyLoss('sapo', (input) => {
  const { advantages, config } = input;
  const difference = logRatio(input);
  const ratio = difference.exp();
  const gate = (tau: number): Tensor =>
    ratio
      .sub(1)
      .mul(tau)
      .sigmoid()
      .mul(4 / tau);
  const gates = where(advantages.gt(0), gate(config.tau_pos), gate(config.tau_neg));
  const none = zerosLike(advantages);
  return finish(
    input,
    gates.mul(advantages).neg(),
    { clipped: none, logRatio: difference, clippedLower: none },
    'seq-mean-token-mean',
  );
});

/** GMPO: log-ratios are clipped on the side that would profit, then the geometric mean is the ratio of the sequence. */
registerPolicyLoss('geo_mean', (input): LossResult => {
  const { logProb, oldLogProb, advantages, responseMask, config, rolloutIsWeights, counts } = input;
  const { low, high } = clipRange(config);
  const difference = logProb.sub(oldLogProb);
  const held = difference.clamp(-low, high);
  const sign = advantages.sign();
  const adverse = sign.mul(difference).minimum(sign.mul(held)).mul(sign);
  const lengths = responseMask.sum(-1).add(1e-8);
  const rowMean = (values: Tensor): Tensor => maskedSum(values, responseMask, -1).div(lengths);
  const ratio = rowMean(adverse).exp();
  let rowLosses = rowMean(advantages).neg().mul(ratio);
  if (rolloutIsWeights) rowLosses = rowLosses.mul(rowMean(rolloutIsWeights.add(1e-10).log()).exp());
  const clipped = difference.ne(held);
  return {
    loss: rowAverage(rowLosses, counts),
    metrics: lossMetrics(responseMask, {
      clipped: clipped.logicalAnd(advantages.gt(0)),
      logRatio: difference,
      clippedLower: clipped.logicalAnd(advantages.lt(0)),
    }),
  };
});

/** verl takes the mean of each micro-batch, which weighs rows by how they were cut; with global counts it does not matter. */
function rowAverage(rowLosses: Tensor, { globalBatchSize, dpSize }: GlobalCounts): Tensor {
  if (globalBatchSize === null && dpSize > 1)
    throw new RangeError(`counts.globalBatchSize over all ranks is required with dpSize ${dpSize}`);
  return rowLosses.sum().mul(dpSize / Math.max(globalBatchSize ?? rowLosses.size(0), 1));
}
