/**
 * The baseline of least variance for every token: B_t = sum G_t W_t / sum W_t over the group, where W_t adds up
 * 1 - 2 pi + sum pi^2 (the expected squared norm of the score function) along the path.
 */
import type { AdvantageInput, Advantages } from '../types.js';
import { groupRows, scoredRows } from './groups.js';
import { type Matrix, readMatrix, rewardToGo, rowSums, writeMatrix } from './matrix.js';
import { registerAdvantage } from './registry.js';

const epsilon = 1e-8;

/** W_t per token; weights of rollout correction enter squared. */
function pathWeights({ oldLogProbs, sumPiSquared, rolloutIsWeights }: AdvantageInput, mask: Matrix): Matrix {
  if (!oldLogProbs) throw new RangeError('optimal_token_baseline needs old log-probabilities');
  if (!sumPiSquared)
    throw new RangeError('optimal_token_baseline needs actor_rollout_ref.actor.calculate_sum_pi_squared=true');
  const { rows, columns } = mask;
  const logProbs = readMatrix(oldLogProbs).data;
  const squares = readMatrix(sumPiSquared).data;
  const weights = rolloutIsWeights ? readMatrix(rolloutIsWeights).data : null;
  const data = new Float64Array(rows * columns);
  for (let row = 0; row < rows; row++) {
    let sum = 0;
    for (let t = 0; t < columns; t++) {
      const at = row * columns + t;
      if (mask.data[at] !== 0) {
        const own = 1 - 2 * Math.exp(logProbs[at]!) + squares[at]!;
        sum += weights ? own * weights[at]! ** 2 : own;
      }
      data[at] = sum;
    }
  }
  return { rows, columns, data };
}

/**
 * `positions[row]` lists the columns that are compared across the group: token k of one row with token k of the others.
 * The tail of the longest row beyond the second longest has nobody to be compared with and keeps its return. Trajectories of
 * one session are one sample: at each position they share its weight, and they are no company for each other.
 */
function tokenBaseline(input: AdvantageInput, positions: (mask: Matrix, row: number) => number[]): Advantages {
  const mask = readMatrix(input.responseMask);
  const returns = rewardToGo(readMatrix(input.tokenLevelRewards), mask);
  const weights = pathWeights(input, mask);
  const lengths = rowSums(mask);
  const { rows, columns } = mask;
  const sessions = input.trajectoryKeys
    ? scoredRows(input.trajectoryKeys)
    : Array.from({ length: rows }, (_, row) => row);
  const places = Array.from({ length: rows }, (_, row) => positions(mask, row));
  const advantages = new Float64Array(rows * columns);
  for (const group of groupRows(input.groupIds)) {
    const members = group.filter((row) => lengths[row]! > 0);
    const byLength = [...members].sort((a, b) => lengths[b]! - lengths[a]!);
    const longest = byLength[0];
    const second = byLength.find((row) => sessions[row] !== sessions[longest!]);
    const tail = second === undefined ? 0 : lengths[longest!]! > lengths[second]! ? lengths[second]! : columns;
    const depth = Math.max(0, ...members.map((row) => places[row]!.length));
    for (let k = 0; k < depth; k++) {
      const present = members.flatMap((row) => {
        const column = places[row]![k];
        const at = row * columns + (column ?? 0);
        return column === undefined || mask.data[at] === 0 ? [] : [{ row, at }];
      });
      const voices = new Map<number, number>();
      for (const { row } of present) voices.set(sessions[row]!, (voices.get(sessions[row]!) ?? 0) + 1);
      let numerator = 0;
      let denominator = epsilon;
      for (const { row, at } of present) {
        const weight = weights.data[at]! / voices.get(sessions[row]!)!;
        numerator += returns.data[at]! * weight;
        denominator += weight;
      }
      for (const { row, at } of present) {
        const alone = sessions[row] === sessions[longest!] && k >= tail;
        advantages[at] = (returns.data[at]! - (alone ? 0 : numerator / denominator)) * mask.data[at]!;
      }
    }
  }
  return {
    advantages: writeMatrix({ rows, columns, data: advantages }, input.tokenLevelRewards),
    returns: writeMatrix(returns, input.tokenLevelRewards),
  };
}

registerAdvantage('optimal_token_baseline', (input) =>
  tokenBaseline(input, (mask) => Array.from({ length: mask.columns }, (_, t) => t)),
);

/** The same on the index of model tokens: text of tools and users is taken out first. */
registerAdvantage('tir_optimal_token_baseline', (input) =>
  tokenBaseline(input, (mask, row) => {
    const columns: number[] = [];
    for (let t = 0; t < mask.columns; t++) if (mask.data[row * mask.columns + t] !== 0) columns.push(t);
    return columns;
  }),
);
