import { type Tensor, tensor } from '@verlet/torch';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { maskedMean, maskedVar } from '../masked.js';
import type { AdvantageInput } from '../types.js';
import { advantageEstimators, computeAdvantage, registerAdvantage } from './index.js';

const double = (values: number[][]): Tensor => tensor(values, { dtype: 'float64' });

/** Rows with their score on the last of `length` tokens. */
function scored(scores: number[], lengths: number[], groupIds: string[], width = 4): AdvantageInput {
  return {
    tokenLevelRewards: double(
      scores.map((score, row) => Array.from({ length: width }, (_, t) => (t === lengths[row]! - 1 ? score : 0))),
    ),
    responseMask: double(scores.map((_, row) => Array.from({ length: width }, (_, t) => (t < lengths[row]! ? 1 : 0)))),
    groupIds,
    gamma: 1,
    lam: 1,
    normAdvByStd: true,
  };
}

const firstTokens = (advantages: Tensor): number[] => advantages.select(1, 0).toArray();

function expectNumbers(actual: number[], expected: number[]): void {
  expect(actual.length).toBe(expected.length);
  for (const [k, value] of expected.entries()) expect(actual[k], `[${k}]`).toBeCloseTo(value, 6);
}

const groups = ['a', 'a', 'a', 'b', 'b', 'c'];
const batch = scored([1, 0, 0.5, 2, 2, 7], [3, 2, 3, 3, 1, 3], groups);
const scalars = (name: string, changes: Partial<AdvantageInput> = {}): number[] =>
  firstTokens(computeAdvantage(name, { ...batch, ...changes }).advantages);

describe('group-relative estimators, by hand', () => {
  test('grpo: mean and unbiased spread of the group; a row alone keeps its score', () => {
    expectNumbers(scalars('grpo'), [0.5 / 0.500001, -0.5 / 0.500001, 0, 0, 0, 7 / 1.000001]);
  });

  test('rloo: against the mean of the others; alone unchanged, in the vectorised form 0', () => {
    expectNumbers(scalars('rloo'), [0.75, -0.75, 0, 0, 0, 7]);
    expectNumbers(scalars('rloo_vectorized'), [0.75, -0.75, 0, 0, 0, 0]);
  });

  test('opo: the baseline is weighted by length', () => {
    const a = (3 * 1 + 2 * 0 + 3 * 0.5) / 8;
    expectNumbers(scalars('opo'), [1 - a, -a, 0.5 - a, 0, 0, 7]);
  });

  test('gpg: centred, scaled by the share of rows with a score', () => {
    expectNumbers(scalars('gpg'), [0.6, -0.6, 0, 0, 0, 8.4]);
  });

  test('grpo_passk: the lead of the best over the second, others nothing', () => {
    const pairs = scored([3, 1, 0, 5, 5, 2], [1, 1, 1, 1, 1, 1], ['a', 'a', 'a', 'b', 'b', 'b']);
    const spread = Math.sqrt(((3 - 4 / 3) ** 2 + (1 - 4 / 3) ** 2 + (4 / 3) ** 2) / 2);
    expectNumbers(firstTokens(computeAdvantage('grpo_passk', pairs).advantages), [2 / (spread + 1e-6), 0, 0, 0, 0, 0]);
    const raw = computeAdvantage('grpo_passk', { ...pairs, normAdvByStd: false }).advantages;
    expectNumbers(firstTokens(raw), [2, 0, 0, 0, 0, 0]);
    expect(() => scalars('grpo_passk')).toThrow(/at least 2 samples/);
  });

  test('equal scores give 0, not NaN', () => {
    const equal = scored([1, 1, 1], [2, 2, 2], ['a', 'a', 'a']);
    for (const name of ['grpo', 'rloo', 'opo', 'gpg', 'grpo_passk'])
      expectNumbers(firstTokens(computeAdvantage(name, equal).advantages), [0, 0, 0]);
  });

  test('advantages stay inside the mask and returns repeat them', () => {
    for (const name of ['grpo', 'rloo', 'opo', 'gpg']) {
      const { advantages, returns } = computeAdvantage(name, batch);
      expect(advantages.mul(batch.responseMask).toNested()).toEqual(advantages.toNested());
      expect(returns.toNested()).toEqual(advantages.toNested());
    }
  });
});

describe('whitened estimators', () => {
  const whitened = (advantages: Tensor): void => {
    expect(maskedMean(advantages, batch.responseMask).item()).toBeCloseTo(0, 6);
    expect(maskedVar(advantages, batch.responseMask).item()).toBeCloseTo(1, 5);
  };

  test('reinforce_plus_plus_baseline: centred by group, then over all tokens', () => {
    const { advantages } = computeAdvantage('reinforce_plus_plus_baseline', batch);
    whitened(advantages);
    const centered = [0.5, -0.5, 0, 0, 0, 7];
    const order = firstTokens(advantages);
    for (const [a, one] of centered.entries())
      for (const [b, other] of centered.entries()) if (one < other) expect(order[a]!).toBeLessThan(order[b]!);
  });

  test('gdpo: a small reward counts as much as a large one', () => {
    const extraScores = { loud: [100, 0, 100, 0], quiet: [0.01, 0.01, 0, 0] };
    const rows = scored([0, 0, 0, 0], [2, 2, 2, 2], ['a', 'a', 'a', 'a'], 2);
    const run = (config: AdvantageInput['config']): number[] =>
      firstTokens(computeAdvantage('gdpo', { ...rows, extraScores, config }).advantages);
    const both = run({ gdpo_reward_keys: ['loud', 'quiet'] });
    // Best at both, best at one, best at the other, best at none.
    expect(both[0]!).toBeGreaterThan(both[1]!);
    expect(both[1]!).toBeCloseTo(both[2]!, 2);
    expect(both[2]!).toBeGreaterThan(both[3]!);
    const quietOnly = run({ gdpo_reward_keys: ['loud', 'quiet'], gdpo_reward_weights: [0, 1] });
    expect(quietOnly[0]!).toBeCloseTo(quietOnly[1]!, 9);
    expect(() => run({})).toThrow(/gdpo_reward_keys; the reward returned loud, quiet/);
    expect(() => run({ gdpo_reward_keys: ['format'] })).toThrow(/no 'format'; it returned loud, quiet/);
    expect(() => run({ gdpo_reward_keys: ['loud'], gdpo_reward_weights: [1, 2] })).toThrow(/2 gdpo_reward_weights/);
  });

  test('gae and reinforce_plus_plus whiten over the mask', () => {
    const values = double([...Array(6).keys()].map((row) => [0.1 * row, 0.2, -0.3 * row, 5]));
    whitened(computeAdvantage('gae', { ...batch, values, gamma: 0.9, lam: 0.8 }).advantages);
    whitened(computeAdvantage('reinforce_plus_plus', { ...batch, gamma: 0.9 }).advantages);
  });

  test('one token has no variance', () => {
    const one = scored([1], [1], ['a']);
    expect(() => computeAdvantage('reinforce_plus_plus', one)).toThrow(/one element/);
  });
});

describe('faults that peers had', () => {
  test('gae works on more than one row, each as if alone', () => {
    const values = double([
      [0.5, -0.2, 0.1, 0],
      [0.3, 0.4, 0, 0],
    ]);
    const two = { ...scored([1, 2], [3, 2], ['a', 'b']), values, gamma: 0.9, lam: 0.95 };
    const { returns } = computeAdvantage('gae', two);
    for (const row of [0, 1]) {
      const index = tensor([row], { dtype: 'int64' });
      const single = (source: Tensor): Tensor => source.indexSelect(0, index);
      const alone = computeAdvantage('gae', {
        ...two,
        tokenLevelRewards: single(two.tokenLevelRewards),
        responseMask: single(two.responseMask),
        values: single(values),
        groupIds: ['a'],
      });
      expect(returns.select(0, row).toArray()).toEqual(alone.returns.select(0, 0).toArray());
    }
  });

  test('reinforce_plus_plus carries the reward across a tool result', () => {
    const rewards = double([[0, 0, 0, 0, 0, 1]]);
    const responseMask = double([[1, 1, 0, 0, 1, 1]]);
    const { returns } = computeAdvantage('reinforce_plus_plus', {
      ...batch,
      tokenLevelRewards: rewards,
      responseMask,
      groupIds: ['a'],
      gamma: 0.5,
    });
    // The peer's loop reset its sum at the observation and left [0, 0] for the first turn.
    expect(returns.toNested()).toEqual([[0.125, 0.25, 0, 0, 0.5, 1]]);
  });

  test('close scores are told apart: no floor under the variance', () => {
    const close = scored([1, 1.00001], [1, 1], ['a', 'a']);
    for (const name of ['grpo', 'grpo_vectorized'])
      expectNumbers(firstTokens(computeAdvantage(name, close).advantages), [-0.6194967, 0.6194967]);
  });
});

describe('token baselines', () => {
  const logProbs = double(Array.from({ length: 6 }, (_, row) => [-0.2 - row / 10, -0.5, -1, -0.3]));
  const squares = double(Array.from({ length: 6 }, () => [0.9, 0.8, 0.7, 0.9]));
  const full = { ...batch, oldLogProbs: logProbs, sumPiSquared: squares };

  test('the tail of the longest row has no baseline, a row alone neither', () => {
    const rows = scored([1, 0], [4, 2], ['a', 'a']);
    const { advantages } = computeAdvantage('optimal_token_baseline', {
      ...rows,
      oldLogProbs: logProbs.narrow(0, 0, 2),
      sumPiSquared: squares.narrow(0, 0, 2),
    });
    const [long, short] = advantages.toNested() as number[][];
    expect(long!.slice(2)).toEqual([1, 1]);
    expect(long![0]).toBeLessThan(1);
    expect(short!.slice(2)).toEqual([0, 0]);
    expect(computeAdvantage('optimal_token_baseline', full).advantages.select(0, 5).toArray()).toEqual([7, 7, 7, 0]);
  });

  test('without observations both forms agree; rollout weights of 1 change nothing, others do', () => {
    const plain = computeAdvantage('optimal_token_baseline', full).advantages.toArray();
    expectNumbers(computeAdvantage('tir_optimal_token_baseline', full).advantages.toArray(), plain);
    const weigh = (weights: Tensor): number[] =>
      computeAdvantage('optimal_token_baseline', { ...full, rolloutIsWeights: weights }).advantages.toArray();
    const ones = squares.mul(0).add(1);
    expectNumbers(weigh(ones), plain);
    expect(weigh(ones.add(logProbs))).not.toEqual(plain);
  });

  test('missing inputs are named', () => {
    expect(() => computeAdvantage('optimal_token_baseline', batch)).toThrow(/old log-prob/);
    expect(() => computeAdvantage('optimal_token_baseline', { ...full, sumPiSquared: undefined })).toThrow(
      /calculate_sum_pi_squared=true/,
    );
    expect(() => computeAdvantage('gae', batch)).toThrow(/critic/);
    expect(() => computeAdvantage('remax', batch)).toThrow(/greedy/);
  });
});

describe('sessions of several trajectories', () => {
  test('only last ones are compared, also when their tokens are masked out', () => {
    const rows = scored([50, 1, 3], [2, 0, 2], ['p', 'p', 'p']);
    rows.tokenLevelRewards = double([
      [50, 0, 0, 0],
      [1, 0, 0, 0],
      [3, 0, 0, 0],
    ]);
    const keyed = { ...rows, trajectoryKeys: ['p_0_0', 'p_0_1', 'p_1_0'], normAdvByStd: false };
    expectNumbers(firstTokens(computeAdvantage('grpo', keyed).advantages), [-1, 0, 1]);
    expect(() => computeAdvantage('grpo', { ...keyed, trajectoryKeys: ['p', 'q', 'r'] })).toThrow(/uid_session/);
  });

  test('one trajectory per session is the plain case', () => {
    const trajectoryKeys = groups.map((group, row) => `${group}_${row}_0`);
    for (const name of ['grpo', 'rloo', 'opo', 'gpg']) expect(scalars(name, { trajectoryKeys })).toEqual(scalars(name));
  });
});

describe('registry', () => {
  test('a user adds an estimator in a few lines; names are exact', () => {
    registerAdvantage('half', ({ tokenLevelRewards, responseMask }) => {
      const advantages = tokenLevelRewards.sum(-1).mul(0.5).unsqueeze(1).mul(responseMask);
      return { advantages, returns: advantages.clone() };
    });
    expectNumbers(scalars('half'), [0.5, 0, 0.25, 1, 1, 3.5]);
    expect(() => registerAdvantage('half', () => ({}) as never)).toThrow(/registered already/);
    expect(() => scalars('GRPO')).toThrow(/unknown advantage estimator 'GRPO'; known: gae, grpo/);
  });

  test('every estimator that the configuration offers exists', async () => {
    const { ADVANTAGE_ESTIMATORS } = await import('../../config/schema/algorithm.js');
    for (const name of ADVANTAGE_ESTIMATORS) expect(advantageEstimators()).toContain(name);
  });

  test('a wrong number of ids is an error', () => {
    expect(() => scalars('grpo', { groupIds: ['a'] })).toThrow(/6 rows of rewards but 1 group ids/);
  });
});

test('the order of rows does not matter to group estimators', () => {
  fc.assert(
    fc.property(
      fc.array(fc.record({ score: fc.integer({ min: -3, max: 3 }), group: fc.constantFrom('x', 'y', 'z') }), {
        minLength: 1,
        maxLength: 12,
      }),
      fc.integer(),
      (rows, seed) => {
        const order = [...rows.keys()].sort((a, b) => ((a * 7919 + seed) % 31) - ((b * 7919 + seed) % 31) || a - b);
        const input = (chosen: number[]): AdvantageInput =>
          scored(
            chosen.map((k) => rows[k]!.score),
            chosen.map(() => 2),
            chosen.map((k) => rows[k]!.group),
          );
        for (const name of ['grpo', 'rloo', 'opo', 'gpg']) {
          const straight = firstTokens(computeAdvantage(name, input([...rows.keys()])).advantages);
          const mixed = firstTokens(computeAdvantage(name, input(order)).advantages);
          for (const [place, k] of order.entries()) expect(mixed[place]).toBeCloseTo(straight[k]!, 9);
        }
      },
    ),
    { numRuns: 40 },
  );
});
