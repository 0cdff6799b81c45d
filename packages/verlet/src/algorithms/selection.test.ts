/** What is chosen: groups that teach something, rows drawn again, tokens picked at random. */
import { describe, expect, test } from 'vitest';
import { chooseRandomly, filterGroups, pfPpoResample, pfPpoWeights, seededRandom } from './index.js';

describe('filter groups', () => {
  test('groups whose values differ and groups of one are kept, in order', () => {
    const groupIds = ['a', 'b', 'a', 'b', 'c', 'd', 'd'];
    const values = [1, 0.1, 0, 0.1, 1, 0, 0.2];
    expect(filterGroups({ groupIds, values })).toEqual({
      rows: [0, 2, 4, 5, 6],
      groupIds: ['a', 'c', 'd'],
      droppedRows: 2,
      surplusRows: 0,
    });
    expect(filterGroups({ groupIds, values, maxGroups: 2 })).toMatchObject({ rows: [0, 2, 4], surplusRows: 2 });
  });

  test('equal floats are equal, whatever rounding would make of their deviation', () => {
    const values = Array<number>(10).fill(0.1);
    expect(filterGroups({ groupIds: values.map(() => 'a'), values }).rows).toEqual([]);
  });

  test('nothing kept is no error; a wrong length is', () => {
    expect(filterGroups({ groupIds: ['a', 'a'], values: [1, 1], low: 0, high: 1 }).rows).toEqual([]);
    expect(() => filterGroups({ groupIds: ['a'], values: [] })).toThrow(/1 rows but 0 values/);
  });
});

describe('PF-PPO', () => {
  const scores = [-2, 0, 1, 2, 1];

  test('weights by method', () => {
    const weights = (reweight_method: 'pow' | 'max_min' | 'max_random'): number[] =>
      pfPpoWeights(scores, { reweight_method, weight_pow: 2 }).map((weight) => Math.round(weight * 1e6) / 1e6);
    expect(weights('pow')).toEqual([4, 0, 1, 4, 1]);
    expect(weights('max_min')).toEqual([1, 0, 0, 1, 0]);
    expect(weights('max_random')).toEqual([0.1, 0.1, 0.1, 0.4, 0.1]);
    expect(() => pfPpoWeights(scores, { reweight_method: 'min' as 'pow', weight_pow: 1 })).toThrow(/known: pow/);
  });

  test('drawn as often as the weights say, and the same for the same seed', () => {
    const many = Array.from({ length: 20000 }, (_, k) => scores[k % scores.length]!);
    const drawn = pfPpoResample(many, { reweight_method: 'pow', weight_pow: 2 }, seededRandom(3));
    expect(drawn.length).toBe(many.length);
    const shares = new Map<number, number>();
    for (const row of drawn) shares.set(many[row]!, (shares.get(many[row]!) ?? 0) + 1 / many.length);
    expect(shares.get(-2)!).toBeCloseTo(0.4, 1);
    expect(shares.get(2)!).toBeCloseTo(0.4, 1);
    expect(shares.get(1)!).toBeCloseTo(0.2, 1);
    expect(shares.get(0) ?? 0).toBeLessThan(1e-3);
    expect(pfPpoResample(scores, { reweight_method: 'pow', weight_pow: 2 })).toEqual(
      pfPpoResample(scores, { reweight_method: 'pow', weight_pow: 2 }),
    );
  });
});

test('a random choice has no repetition and favours nobody', () => {
  const random = seededRandom(11);
  const counts = new Array<number>(5).fill(0);
  for (let round = 0; round < 5000; round++) {
    const chosen = chooseRandomly([0, 1, 2, 3, 4], 2, random);
    expect(new Set(chosen).size).toBe(2);
    for (const item of chosen) counts[item]!++;
  }
  for (const count of counts) expect(count / 5000).toBeCloseTo(0.4, 1);
  expect(chooseRandomly([1, 2], 5, random).length).toBe(2);
});
