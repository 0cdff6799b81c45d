import type { RewardInput } from '../types.js';
import { lastBoxed } from './boxed.js';
import { hasThinkAndBox, type WeightedFormatOptions, weighFormat } from './geo3k.js';
import { softOverlongPunishment } from './length.js';
import { normalizeFinalAnswer } from './math-dapo.js';
import { gradeAnswer } from './prime-math.js';
import { answerText, lastCharacters } from './text.js';

/** EasyR1's example rewards, with its result keys. */
export type EasyR1Result = { overall: number } & Record<string, number>;

/** Qwen2.5-VL writes `< think >`: white space around `<`, `>` and `/` goes first. */
const tightenTags = (response: string): string => response.replace(/\s*([<>/])\s*/g, '$1');

export function easyR1Math(input: RewardInput, options: WeightedFormatOptions = {}): EasyR1Result {
  const response = tightenTags(input.solution_str);
  const answer = lastBoxed(response);
  const accuracy = answer !== undefined && gradeAnswer(answer, answerText(input.ground_truth)) ? 1 : 0;
  const format = hasThinkAndBox(response) ? 1 : 0;
  return { overall: weighFormat(accuracy, format, options.format_weight ?? 0.1), format, accuracy };
}

export function easyR1R1v(input: RewardInput, options: WeightedFormatOptions = {}): EasyR1Result {
  const response = input.solution_str;
  const format = /^<think>[\s\S]*?<\/think>\s*<answer>[\s\S]*?<\/answer>$/.test(response) ? 1 : 0;
  const given = /<answer>([\s\S]*?)<\/answer>/.exec(response)?.[1] ?? response;
  const accuracy = gradeAnswer(given.trim(), answerText(input.ground_truth).trim()) ? 1 : 0;
  return { overall: weighFormat(accuracy, format, options.format_weight ?? 0.5), format, accuracy };
}

export interface EasyR1DapoOptions {
  max_response_length: number;
  overlong_buffer_length: number;
  overlong_penalty_factor: number;
}

export function easyR1Dapo(input: RewardInput, options: EasyR1DapoOptions): EasyR1Result {
  const line =
    [...lastCharacters(input.solution_str, 300).matchAll(/Answer\s*:\s*([^\n]+)/gi)].at(-1)?.[1] ?? '[INVALID]';
  const accuracy = normalizeFinalAnswer(line) === normalizeFinalAnswer(answerText(input.ground_truth)) ? 1 : -1;
  const length = Number(input.response_length ?? input.response_ids?.length ?? 0);
  const overlong = softOverlongPunishment(length, options.max_response_length, options.overlong_buffer_length);
  const overall = accuracy + overlong * options.overlong_penalty_factor;
  return { overall, accuracy, overlong, accuracy_normalized: 0.5 * (accuracy + 1) };
}
