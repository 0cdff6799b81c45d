// The share of tests that the program in the answer passes; a little less for an answer without a program. Programs run in the
// sandbox only: docs/sandbox.md says what that stops and what it does not.
import { rewards } from 'verlet';

interface Options {
  /** Give the share of passed tests instead of all or nothing. */
  continuous?: boolean;
  /** For an answer without a fenced block. */
  missing_code_score?: number;
}

export async function compute_score(input: rewards.RewardInput, options: Options) {
  const { continuous = true, missing_code_score = -0.1 } = options;
  if (!input.solution_str.includes('```'))
    return { score: missing_code_score, passed: 0, failure: 'no code', has_code: false };
  const verdict = await rewards.primeCode(input, { continuous });
  return { score: verdict.score, passed: verdict.passed / verdict.tests, failure: verdict.failure, has_code: true };
}
