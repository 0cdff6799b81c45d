/** What an answer is worth. Called once per sample; the fields beside `score` become metrics of the run. */
export function compute_score({ solution_str, ground_truth }: { solution_str: string; ground_truth: unknown }) {
  const answer = /####\s*(-?\d+)/.exec(solution_str)?.[1];
  const isCorrect = answer === String(ground_truth);
  // A little for the right form, so that there is something to learn from before the first right answer.
  return { score: isCorrect ? 1 : answer === undefined ? 0 : 0.1, acc: isCorrect, pred: answer ?? '' };
}
