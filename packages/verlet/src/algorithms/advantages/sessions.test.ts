/** Rollouts that leave several trajectories: one sample of their prompt each, however many rows they have. */
import { type Tensor, tensor } from '@verlet/torch';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { AdvantageInput } from '../types.js';
import { advantageEstimators, computeAdvantage, scoredRows } from './index.js';

interface Rollout {
  group: string;
  score: number;
  /** Rows it left, each with these many tokens. */
  rows: number[];
}

const width = 4;

/** One row per trajectory; `perRollout` only the last of each. */
function inputOf(rollouts: readonly Rollout[], perRollout = false): AdvantageInput {
  const rows = rollouts.flatMap(({ group, score, rows }, session) =>
    (perRollout ? rows.slice(-1) : rows).map((length, k) => ({
      group,
      score,
      length,
      key: `${group}_${session}_${k}`,
    })),
  );
  const matrix = (cell: (row: (typeof rows)[number], t: number) => number): Tensor =>
    tensor(
      rows.map((row) => Array.from({ length: width }, (_, t) => cell(row, t))),
      { dtype: 'float64' },
    );
  const inside = ({ length }: { length: number }, t: number, value: number): number => (t < length ? value : 0);
  return {
    tokenLevelRewards: matrix((row, t) => (t === row.length - 1 ? row.score : 0)),
    responseMask: matrix((row, t) => inside(row, t, 1)),
    groupIds: rows.map(({ group }) => group),
    trajectoryKeys: rows.map(({ key }) => key),
    values: matrix(() => 0.25),
    rewardBaselines: tensor(rows.map(() => 0.5)),
    oldLogProbs: matrix((row, t) => inside(row, t, -0.5 - 0.1 * t)),
    sumPiSquared: matrix((row, t) => inside(row, t, 0.4)),
    extraScores: { quality: rows.map(({ score }) => score) },
    config: { gdpo_reward_keys: ['quality'] },
    gamma: 1,
    lam: 1,
    normAdvByStd: true,
  };
}

const firstTokens = (name: string, input: AdvantageInput): number[] =>
  computeAdvantage(name, input).advantages.select(1, 0).toArray();

/** The advantage of each rollout, and a check that all of its rows have the same. */
function perRollout(name: string, rollouts: readonly Rollout[]): number[] {
  const advantages = firstTokens(name, inputOf(rollouts));
  return rollouts.map(({ rows }) => {
    const own = advantages.splice(0, rows.length);
    for (const value of own) expect(value, name).toBeCloseTo(own[0]!, 9);
    return own[0]!;
  });
}

const uneven: Rollout[] = [
  { group: 'a', score: 1, rows: [2, 2, 2] },
  { group: 'a', score: 0, rows: [2] },
  { group: 'a', score: 0.25, rows: [2, 2] },
  { group: 'b', score: 3, rows: [2] },
  { group: 'b', score: 1, rows: [2, 2, 2, 2] },
];

describe('a rollout of several trajectories counts once', () => {
  test.each(['grpo', 'grpo_vectorized', 'grpo_passk', 'rloo', 'rloo_vectorized', 'gpg'])(
    '%s: the same numbers as with one row each',
    (name) => {
      const single = firstTokens(name, inputOf(uneven, true));
      for (const [k, value] of perRollout(name, uneven).entries()) expect(value).toBeCloseTo(single[k]!, 9);
    },
  );

  test.each(['optimal_token_baseline', 'tir_optimal_token_baseline'])('%s: its rows share one weight', (name) => {
    const single = firstTokens(name, inputOf(uneven, true));
    for (const [k, value] of perRollout(name, uneven).entries()) expect(value).toBeCloseTo(single[k]!, 6);
  });

  // Whitening over tokens shifts and scales all; the distances between rollouts keep their proportions.
  test.each(['gdpo', 'reinforce_plus_plus_baseline'])('%s: the same distances as with one row each', (name) => {
    const single = firstTokens(name, inputOf(uneven, true));
    const several = perRollout(name, uneven);
    const scale = (several[0]! - several[1]!) / (single[0]! - single[1]!);
    for (let k = 1; k < single.length; k++)
      expect(several[k]! - several[k - 1]!).toBeCloseTo(scale * (single[k]! - single[k - 1]!), 9);
  });

  test('opo: its length is that of all its rows', () => {
    const [first] = perRollout('opo', [
      { group: 'a', score: 1, rows: [2, 3] },
      { group: 'a', score: 0, rows: [1] },
    ]);
    expect(first).toBeCloseTo(1 - (5 * 1 + 1 * 0) / 6, 9);
  });

  test('rows that their own scores tell apart are decided by the last', () => {
    const input = inputOf([
      { group: 'a', score: 1, rows: [1, 1] },
      { group: 'a', score: 0, rows: [1] },
    ]);
    const scores = [0.3, 1, 0];
    const rewards = tensor(
      scores.map((score) => [score, 0, 0, 0]),
      { dtype: 'float64' },
    );
    const advantages = firstTokens('rloo', { ...input, tokenLevelRewards: rewards });
    expect(advantages).toEqual([1, 1, -1]);
    expect(scoredRows(input.trajectoryKeys!)).toEqual([1, 1, 2]);
  });
});

test('groups of any sizes work in every estimator', () => {
  const rollout = fc.record({
    group: fc.constantFrom('x', 'y', 'z'),
    score: fc.integer({ min: -2, max: 2 }),
    rows: fc.array(fc.integer({ min: 1, max: width }), { minLength: 1, maxLength: 3 }),
  });
  const needsPairs = new Set(['grpo_passk']);
  fc.assert(
    fc.property(fc.array(rollout, { minLength: 2, maxLength: 7 }), (rollouts) => {
      const groups = rollouts.map(({ group }) => group);
      const hasSingles = groups.some((group) => groups.indexOf(group) === groups.lastIndexOf(group));
      for (const name of advantageEstimators()) {
        if (needsPairs.has(name) && hasSingles) continue;
        const { advantages, returns } = computeAdvantage(name, inputOf(rollouts));
        for (const value of [...advantages.toFloat64Array(), ...returns.toFloat64Array()])
          expect(Number.isFinite(value), name).toBe(true);
      }
    }),
    { numRuns: 40 },
  );
});
