/** What the losses share: the ratio of policies, its clip range, and the metrics under verl's names. */
import type { Tensor } from '@verlet/torch';
import { aggLoss } from '../aggregate.js';
import { maskedMean, readScalars } from '../masked.js';
import type { LossAggMode, LossResult, PolicyLossConfig, PolicyLossInput } from '../types.js';

/** log(pi / pi_old), bounded so that its exponential stays finite. */
export function logRatio({ logProb, oldLogProb }: Pick<PolicyLossInput, 'logProb' | 'oldLogProb'>): Tensor {
  return logProb.sub(oldLogProb).clamp(-20, 20);
}

export function clipRange(config: PolicyLossConfig): { low: number; high: number } {
  return { low: config.clip_ratio_low ?? config.clip_ratio, high: config.clip_ratio_high ?? config.clip_ratio };
}

export function weighted(losses: Tensor, { rolloutIsWeights }: PolicyLossInput): Tensor {
  return rolloutIsWeights ? losses.mul(rolloutIsWeights) : losses;
}

export interface Report {
  /** Tokens whose gradient the clip took, as 0 and 1. */
  clipped?: Tensor;
  clippedLower?: Tensor;
  /** log(pi / pi_old) as the KL metric sees it. */
  logRatio?: Tensor;
}

/** Aggregates, and reports shares over the mask. A clip that a loss does not have is reported as 0, as verl does. */
export function finish(
  input: PolicyLossInput,
  losses: Tensor,
  report: Report,
  mode: LossAggMode = input.lossAggMode,
): LossResult {
  return {
    loss: aggLoss(weighted(losses, input), input.responseMask, mode, input.counts),
    metrics: lossMetrics(input.responseMask, report),
  };
}

export function lossMetrics(responseMask: Tensor, { clipped, clippedLower, logRatio: ratio }: Report) {
  const mean = (values: Tensor): Tensor => maskedMean(values, responseMask);
  return {
    ...readScalars({
      ...(clipped && { 'actor/pg_clipfrac': mean(asNumbers(clipped)) }),
      ...(ratio && { 'actor/ppo_kl': mean(ratio.detach().neg()) }),
      ...(clippedLower && { 'actor/pg_clipfrac_lower': mean(asNumbers(clippedLower)) }),
    }),
  };
}

/** Doubles: a share must not lose digits to the type of the mask. */
function asNumbers(condition: Tensor): Tensor {
  return condition.detach().to('float64');
}
