import { karmarkarKarp } from './karmarkar-karp.js';
import { ceilDivide, roundUp, workload } from './workload.js';

export interface MicroBatchOptions {
  /** At least this many. */
  minMicroBatches?: number;
  /** A multiple of this many (pipeline stages). */
  divisibleBy?: number;
  /** The largest of a number over all ranks, so that ranks take the same number of steps. */
  maxOverRanks?: (count: number) => number;
  /** Light micro-batches at both ends; else in the order of partitioning. */
  balance?: boolean;
}

/**
 * Rows cut into micro-batches of about `maxTokenLen` tokens: as few as the total allows, of equal work. Work, not tokens, is
 * balanced, so a micro-batch may pass the limit a little. Row numbers; `restoreOrder` undoes it.
 */
export function rearrangeMicroBatches(
  lengths: readonly number[],
  maxTokenLen: number,
  options: MicroBatchOptions = {},
): number[][] {
  const longest = lengths.reduce((a, b) => Math.max(a, b), 0);
  if (longest > maxTokenLen)
    throw new RangeError(
      `a sequence of ${longest} tokens does not fit a micro-batch of ${maxTokenLen}; ` +
        'raise ppo_max_token_len_per_gpu (and log_prob_max_token_len_per_gpu)',
    );
  const total = lengths.reduce((sum, length) => sum + length, 0);
  let count = Math.max(Math.min(lengths.length, ceilDivide(total, maxTokenLen)), options.minMicroBatches ?? 1, 1);
  if (options.maxOverRanks) count = options.maxOverRanks(count);
  if (options.divisibleBy) count = roundUp(count, options.divisibleBy);
  if (lengths.length === 0 && count === 1) return [];
  if (count > lengths.length)
    throw new RangeError(`${lengths.length} rows cannot be cut into ${count} micro-batches; give ranks more rows`);
  const work = lengths.map(workload);
  const parts = karmarkarKarp(work, count);
  if (options.balance === false) return parts;
  // The heaviest in the middle: the steps that fill and drain a pipeline are the light ones.
  const cost = new Map(parts.map((part) => [part, part.reduce((sum, row) => sum + work[row]!, 0)]));
  parts.sort((a, b) => cost.get(b)! - cost.get(a)! || b[0]! - a[0]!);
  const even = parts.filter((_, k) => k % 2 === 0).reverse();
  return [...even, ...parts.filter((_, k) => k % 2 === 1)];
}

/** `inverse[order[k]] = k`. */
export function inverseOrder(order: readonly number[]): number[] {
  const inverse = new Array<number>(order.length).fill(-1);
  for (const [k, row] of order.entries()) {
    if (inverse[row] !== -1) throw new RangeError(`row ${row} is not in the order exactly once`);
    inverse[row] = k;
  }
  return inverse;
}

/** Results in the order of micro-batches, back in the order of rows. */
export function restoreOrder<T>(results: readonly T[], microBatches: readonly (readonly number[])[]): T[] {
  const order = microBatches.flat();
  if (order.length !== results.length)
    throw new RangeError(`${results.length} results for ${order.length} rows in micro-batches`);
  return inverseOrder(order).map((k) => results[k]!);
}
