/** Penalties on length. */

/** DAPO's overlong penalty: 0 up to `maxLength - buffer`, then linear, `-factor` at `maxLength` and growing beyond. */
export function overlongPenalty(length: number, maxLength: number, buffer: number, factor: number): number {
  if (!(buffer > 0)) throw new RangeError(`overlong_buffer.len must be positive, but it is ${buffer}`);
  return Math.min((-(length - (maxLength - buffer)) / buffer) * factor, 0);
}

/** EasyR1's form: the same slope, but never below -1. */
export function softOverlongPunishment(length: number, maxLength: number, buffer: number): number {
  return Math.max(overlongPenalty(length, maxLength, buffer, 1), -1);
}

/**
 * The cosine length reward of "Demystifying long chain-of-thought": correct answers earn more when short, wrong ones lose
 * less when long, so that giving up early is never the best answer.
 */
export function cosineLengthReward(
  correct: boolean,
  length: number,
  maxLength: number,
  range = { correct: [1, 0.5] as const, wrong: [-1, -0.5] as const },
): number {
  const [atZero, atMax] = correct ? range.correct : range.wrong;
  const progress = Math.min(Math.max(length / maxLength, 0), 1);
  return atMax + 0.5 * (atZero - atMax) * (1 + Math.cos(progress * Math.PI));
}
