import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  balancedOrder,
  greedyPartition,
  groupBalancedPartitions,
  inverseOrder,
  karmarkarKarp,
  rearrangeMicroBatches,
  restoreOrder,
  workload,
} from './index.js';

const sum = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0);
const ascending = (values: readonly number[]): number[] => [...values].sort((a, b) => a - b);
const numbersTo = (count: number): number[] => Array.from({ length: count }, (_, k) => k);

const lengthsOf = (max: number) => fc.array(fc.integer({ min: 1, max }), { minLength: 1, maxLength: 40 });

describe('Karmarkar-Karp', () => {
  test('every item once, no part empty, parts sorted inside, heaviest first', () => {
    fc.assert(
      fc.property(lengthsOf(5000), fc.integer({ min: 1, max: 8 }), (lengths, k) => {
        fc.pre(lengths.length >= k);
        const parts = karmarkarKarp(lengths, k);
        expect(parts.length).toBe(k);
        expect(ascending(parts.flat())).toEqual(numbersTo(lengths.length));
        for (const part of parts) {
          expect(part.length).toBeGreaterThan(0);
          expect(part).toEqual(ascending(part));
        }
        const sums = parts.map((part) => sum(part.map((item) => lengths[item]!)));
        expect(sums).toEqual(ascending(sums).reverse());
        // Differencing never leaves more between two parts than the largest item.
        expect(sums[0]! - sums.at(-1)!).toBeLessThanOrEqual(Math.max(...lengths));
      }),
    );
  });

  test('equal size: the same number of items each', () => {
    fc.assert(
      fc.property(lengthsOf(5000), fc.integer({ min: 1, max: 5 }), (some, k) => {
        const lengths = Array.from({ length: k * Math.ceil(some.length / k) }, (_, n) => some[n % some.length]!);
        const parts = karmarkarKarp(lengths, k, true);
        expect(new Set(parts.map((part) => part.length)).size).toBe(1);
        expect(ascending(parts.flat())).toEqual(numbersTo(lengths.length));
      }),
    );
  });

  test('two ways it is close to the best of all cuts', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1, max: 200 }), { minLength: 2, maxLength: 10 }), (lengths) => {
        const [heavy, light] = karmarkarKarp(lengths, 2).map((part) => sum(part.map((k) => lengths[k]!)));
        let best = Number.POSITIVE_INFINITY;
        for (let cut = 0; cut < 2 ** lengths.length; cut++) {
          const one = sum(lengths.filter((_, k) => cut & (1 << k)));
          best = Math.min(best, Math.abs(sum(lengths) - 2 * one));
        }
        expect(heavy! - light!).toBeGreaterThanOrEqual(best);
        // The known bound: 7/6 of the best heaviest part.
        expect(heavy!).toBeLessThanOrEqual(((sum(lengths) + best) / 2) * (7 / 6) + 1e-9);
      }),
      { numRuns: 60 },
    );
  });

  test('what cannot be cut is an error', () => {
    expect(() => karmarkarKarp([1, 2], 3)).toThrow(/2 items cannot fill 3/);
    expect(() => karmarkarKarp([1, 2, 3], 2, true)).toThrow(/do not divide/);
    expect(() => karmarkarKarp([1], 0)).toThrow(/positive integer/);
  });
});

test('greedy: in order, to the lightest, the first on a tie', () => {
  expect(greedyPartition([3, 1, 1, 1, 4], 2)).toEqual([
    [0, 4],
    [1, 2, 3],
  ]);
  expect(greedyPartition([9, 1, 1, 1], 2, true).map((part) => part.length)).toEqual([2, 2]);
});

test('workload of a sequence', () => {
  expect([0, 1, 1024].map(workload)).toEqual([0, 24577, 26214400]);
});

describe('micro-batches', () => {
  test('all rows once, as few micro-batches as tokens allow, order restored', () => {
    fc.assert(
      fc.property(lengthsOf(100), fc.integer({ min: 100, max: 400 }), (lengths, budget) => {
        const parts = rearrangeMicroBatches(lengths, budget);
        expect(parts.length).toBe(Math.min(lengths.length, Math.ceil(sum(lengths) / budget)));
        expect(ascending(parts.flat())).toEqual(numbersTo(lengths.length));
        const results = parts.flat().map((row) => `result of ${row}`);
        expect(restoreOrder(results, parts)).toEqual(lengths.map((_, row) => `result of ${row}`));
      }),
    );
  });

  test('light ones at both ends', () => {
    fc.assert(
      fc.property(lengthsOf(100), (lengths) => {
        const cost = rearrangeMicroBatches(lengths, 100).map((part) => sum(part.map((row) => workload(lengths[row]!))));
        const peak = cost.indexOf(Math.max(...cost));
        for (let k = 1; k < cost.length; k++) {
          if (k <= peak) expect(cost[k]!).toBeGreaterThanOrEqual(cost[k - 1]!);
          else expect(cost[k]!).toBeLessThanOrEqual(cost[k - 1]!);
        }
      }),
    );
  });

  test('ranks take the same number of steps, pipelines a multiple', () => {
    const lengths = [10, 10, 10, 10];
    expect(rearrangeMicroBatches(lengths, 100, { maxOverRanks: (count) => Math.max(count, 3) }).length).toBe(3);
    expect(rearrangeMicroBatches(lengths, 100, { divisibleBy: 4 }).length).toBe(4);
    expect(rearrangeMicroBatches(lengths, 100, { minMicroBatches: 2 }).length).toBe(2);
    expect(() => rearrangeMicroBatches(lengths, 100, { minMicroBatches: 5 })).toThrow(/4 rows cannot be cut into 5/);
    expect(() => rearrangeMicroBatches([101], 100)).toThrow(/101 tokens does not fit.*ppo_max_token_len_per_gpu/);
    expect(rearrangeMicroBatches([], 100)).toEqual([]);
  });

  test('an order that is none is an error', () => {
    expect(() => inverseOrder([0, 0])).toThrow(/exactly once/);
    expect(() => restoreOrder([1], [[0], [1]])).toThrow(/1 results for 2 rows/);
  });
});

describe('balance over ranks', () => {
  test('a permutation, equal rows per rank, never worse than the order it came in', () => {
    fc.assert(
      fc.property(lengthsOf(2000), fc.integer({ min: 1, max: 4 }), (some, ranks) => {
        const lengths = Array.from({ length: ranks * some.length }, (_, k) => some[k % some.length]! + k);
        const { order, partitions, metrics } = balancedOrder(lengths, ranks);
        expect(ascending(order)).toEqual(numbersTo(lengths.length));
        expect(new Set(partitions.map((part) => part.length))).toEqual(new Set([lengths.length / ranks]));
        expect(metrics['global_seqlen/mean']).toBeCloseTo(sum(lengths) / ranks, 6);
        expect(metrics['global_seqlen/balanced_min']!).toBeLessThanOrEqual(metrics['global_seqlen/mean']! + 1e-6);
        expect(metrics['global_seqlen/balanced_max']!).toBeGreaterThanOrEqual(metrics['global_seqlen/mean']! - 1e-6);
      }),
      { numRuns: 40 },
    );
  });

  test('inside a rank: up and down again', () => {
    expect(balancedOrder([50, 10, 40, 20, 30], 1).order).toEqual([1, 4, 0, 2, 3]);
  });

  test('rows of one prompt stay together', () => {
    const groupIds = ['a', 'a', 'b', 'b', 'c', 'c', 'd', 'd'];
    const { partitions } = balancedOrder([10, 10, 100, 100, 50, 50, 60, 60], 2, { groupIds });
    expect(partitions).toEqual([
      [0, 1, 2, 3],
      [4, 5, 6, 7],
    ]);
    expect(() => groupBalancedPartitions([1, 2], ['a', 'a'], 2)).toThrow(/1 items cannot fill 2/);
  });
});
