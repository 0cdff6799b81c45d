import { compare, type Limits } from '../equivalence/index.js';
import type { RewardInput } from '../types.js';
import { lastBoxed } from './boxed.js';
import { sameMathString } from './math.js';
import { answerText } from './text.js';

export interface PrimeMathOptions {
  /** Bounds on one comparison; the defaults suit answers, not essays. */
  limits?: Partial<Limits>;
}

/** Equal as normalised strings, or mathematically equal. A ground truth may itself be a solution with a box. */
export function gradeAnswer(prediction: string, groundTruth: string, limits: Partial<Limits> = {}): boolean {
  const reference = lastBoxed(groundTruth) ?? groundTruth;
  return sameMathString(prediction, reference) || compare(prediction, reference, limits).equal;
}

/** 1 when the last boxed answer is equivalent to the ground truth (to any of them when there are several). */
export function primeMath(
  input: RewardInput,
  options: PrimeMathOptions = {},
): { score: number; acc: boolean; pred: string } {
  const pred = lastBoxed(input.solution_str);
  const references = Array.isArray(input.ground_truth) ? input.ground_truth : [input.ground_truth];
  const acc = pred !== undefined && references.some((one) => gradeAnswer(pred, answerText(one), options.limits));
  return { score: acc ? 1 : 0, acc, pred: pred ?? '[INVALID]' };
}
