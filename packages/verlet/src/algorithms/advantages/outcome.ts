/** Estimators that look at one score per row: what they share. */
import type { AdvantageInput } from '../types.js';
import { groupRows, scoredRows } from './groups.js';
import { type Matrix, readMatrix, rowSums, spread, writeMatrix } from './matrix.js';
import { type AdvantageEstimator, registerAdvantage } from './registry.js';

export interface Outcome {
  scores: Float64Array;
  /** Response tokens per row; of all rows of its session, where a session has several. */
  lengths: Float64Array;
  /** Row numbers of each prompt. */
  groups: number[][];
  input: AdvantageInput;
}

/** One number per row. */
export type OutcomeEstimator = (outcome: Outcome) => Float64Array;

/** Wraps an estimator of one number per row: scores and groups in, the number spread over the row's tokens out. */
export function outcomeEstimator(estimate: OutcomeEstimator): AdvantageEstimator {
  return (input) => {
    const mask = readMatrix(input.responseMask);
    const advantages = writeMatrix(spread(outcomeScalars(input, mask, estimate), mask), input.tokenLevelRewards);
    return { advantages, returns: advantages.clone() };
  };
}

export function registerOutcome(name: string, estimate: OutcomeEstimator): void {
  registerAdvantage(name, outcomeEstimator(estimate));
}

/**
 * With sessions of several trajectories only the last of each takes part, and the others get its number: a session is one
 * sample of its prompt, however many rows it left. verl reads the number off the last trajectory's first token and so gives 0
 * when that trajectory has none; here it does not depend on that.
 */
export function outcomeScalars(
  input: AdvantageInput,
  mask: Matrix,
  estimate: OutcomeEstimator,
  scores: Float64Array = rowSums(readMatrix(input.tokenLevelRewards)),
): Float64Array {
  const lengths = rowSums(mask);
  if (!input.trajectoryKeys) return estimate({ scores, lengths, groups: groupRows(input.groupIds), input });
  const scored = scoredRows(input.trajectoryKeys);
  const chosen = [...new Set(scored)];
  const place = new Map(chosen.map((row, k) => [row, k]));
  const sessionLengths = new Float64Array(chosen.length);
  for (const [row, length] of lengths.entries()) sessionLengths[place.get(scored[row]!)!]! += length;
  const scalars = estimate({
    scores: Float64Array.from(chosen, (row) => scores[row]!),
    lengths: sessionLengths,
    groups: groupRows(chosen.map((row) => input.groupIds[row]!)),
    input,
  });
  return Float64Array.from(scored, (row) => scalars[place.get(row)!]!);
}

export function meanOf(scores: Float64Array, rows: readonly number[]): number {
  return rows.reduce((sum, row) => sum + scores[row]!, 0) / rows.length;
}

/** With Bessel's correction. */
export function spreadOf(scores: Float64Array, rows: readonly number[]): number {
  const mean = meanOf(scores, rows);
  return Math.sqrt(rows.reduce((sum, row) => sum + (scores[row]! - mean) ** 2, 0) / (rows.length - 1));
}
