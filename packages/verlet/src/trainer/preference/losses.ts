/** Losses of pairs, as functions of numbers. Each returns the loss and its slope, which is all that backward needs. */
import type { PreferenceSettings } from './settings.js';

export interface LossAndSlope {
  loss: number;
  /** Derivative of the loss by the margin. */
  slope: number;
}

const sigmoid = (x: number): number => (x >= 0 ? 1 / (1 + Math.exp(-x)) : Math.exp(x) / (1 + Math.exp(x)));
/** log(sigmoid(x)) without overflow. */
const logSigmoid = (x: number): number => Math.min(x, 0) - Math.log1p(Math.exp(-Math.abs(x)));

/**
 * DPO (Rafailov et al. 2023) and its relatives. `margin` is how much more the policy than the reference prefers the chosen
 * answer: (log pi(c) - log ref(c)) - (log pi(r) - log ref(r)).
 */
export function preferenceLoss(
  margin: number,
  { lossType, beta, labelSmoothing }: Pick<PreferenceSettings, 'lossType' | 'beta' | 'labelSmoothing'>,
): LossAndSlope {
  const x = beta * margin;
  if (lossType === 'hinge') return { loss: Math.max(0, 1 - x), slope: x < 1 ? -beta : 0 };
  if (lossType === 'ipo') {
    const distance = margin - 1 / (2 * beta);
    return { loss: distance ** 2, slope: 2 * distance };
  }
  return {
    loss: -(1 - labelSmoothing) * logSigmoid(x) - labelSmoothing * logSigmoid(-x),
    slope: beta * (labelSmoothing * sigmoid(x) - (1 - labelSmoothing) * sigmoid(-x)),
  };
}

export interface RankingLoss {
  loss: number;
  /** Derivatives by the two scores. */
  chosen: number;
  rejected: number;
}

/** Bradley-Terry: -log sigmoid(chosen - rejected), with an optional pull of both towards a sum of zero. */
export function rankingLoss(chosen: number, rejected: number, centering: number): RankingLoss {
  const slope = -sigmoid(rejected - chosen);
  const sum = chosen + rejected;
  return {
    loss: -logSigmoid(chosen - rejected) + centering * sum ** 2,
    chosen: slope + 2 * centering * sum,
    rejected: -slope + 2 * centering * sum,
  };
}
