// The built-in gsm8k score with a little for form: a first signal for models that cannot solve anything yet.
import { rewards } from 'verlet';

interface Options {
  /** For a wrong answer behind `####`. */
  format_score?: number;
}

export function compute_score(input: rewards.RewardInput, { format_score = 0.1 }: Options) {
  const answer = rewards.extractGsm8k(input.solution_str);
  const correct = answer !== undefined && answer === String(input.ground_truth);
  return {
    score: correct ? 1 : answer === undefined ? 0 : format_score,
    acc: correct,
    formatted: answer !== undefined,
  };
}
