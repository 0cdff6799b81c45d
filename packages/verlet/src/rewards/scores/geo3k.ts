import type { RewardInput } from '../types.js';
import { lastBoxed } from './boxed.js';
import { gradeAnswer } from './prime-math.js';
import { answerText } from './text.js';

export interface WeightedFormatOptions {
  /** Share of the format in the score. */
  format_weight?: number;
}

/** Thinks first, then boxes an answer. */
export const hasThinkAndBox = (response: string): boolean =>
  /^<think>[\s\S]*<\/think>[\s\S]*\\boxed\{[\s\S]*\}[\s\S]*$/.test(response);

export const weighFormat = (accuracy: number, format: number, weight: number): number =>
  (1 - weight) * accuracy + weight * format;

/** 0.9 accuracy + 0.1 format. */
export function geo3k(
  input: RewardInput,
  options: WeightedFormatOptions = {},
): { score: number; acc: number; format: number } {
  const answer = lastBoxed(input.solution_str);
  const acc = answer !== undefined && gradeAnswer(answer, answerText(input.ground_truth)) ? 1 : 0;
  const format = hasThinkAndBox(input.solution_str) ? 1 : 0;
  return { score: weighFormat(acc, format, options.format_weight ?? 0.1), acc, format };
}
