import type { RewardInput } from '../types.js';
import { answerText, lastCharacters } from './text.js';

export interface Gsm8kOptions {
  /** `strict` wants the `#### 42` line; `flexible` takes the last number. */
  method?: 'strict' | 'flexible';
  /** For an answer in the right form that is wrong. */
  format_score?: number;
  score?: number;
}

/** The final answer is at the end; reading only that part keeps numbers of the reasoning out and is faster. */
const window = 300;

export function extractGsm8k(solution: string, method: 'strict' | 'flexible' = 'strict'): string | undefined {
  const tail = lastCharacters(solution, window);
  if (method === 'strict') {
    const matches = [...tail.matchAll(/#### (-?[0-9.,]+)/g)];
    return matches.at(-1)?.[1]?.replace(/[,$]/g, '');
  }
  if (method !== 'flexible') throw new TypeError(`gsm8k: method is strict or flexible, not ${JSON.stringify(method)}`);
  // Text without any digit has no answer: a lone full stop is not a number.
  return [...tail.matchAll(/-?[0-9.,]+/g)]
    .map((match) => match[0])
    .findLast((number) => number !== '.' && number !== ',');
}

/** 1 for the right answer, `format_score` for a wrong one in the right form, 0 for none. */
export function gsm8k(input: RewardInput, options: Gsm8kOptions = {}): number {
  const answer = extractGsm8k(input.solution_str, options.method);
  if (answer === undefined) return 0;
  return answer === answerText(input.ground_truth) ? (options.score ?? 1) : (options.format_score ?? 0);
}
