/** Equal work for data-parallel ranks, which take consecutive rows. */
import { karmarkarKarp } from './karmarkar-karp.js';
import { workload } from './workload.js';

export interface BalanceOptions {
  /** Rows of one prompt stay on one rank. */
  groupIds?: readonly string[];
  /** First part of the metric names. */
  prefix?: string;
}

export interface BalancedBatch {
  /** New order of rows: the first `rows / ranks` are for rank 0, and so on. */
  order: number[];
  partitions: number[][];
  metrics: Record<string, number>;
}

export function balancedOrder(lengths: readonly number[], ranks: number, options: BalanceOptions = {}): BalancedBatch {
  const work = lengths.map(workload);
  const partitions = options.groupIds
    ? groupBalancedPartitions(lengths, options.groupIds, ranks)
    : karmarkarKarp(work, ranks, true).map((rows) => lightAtBothEnds(rows, work));
  return {
    order: partitions.flat(),
    partitions,
    metrics: balanceMetrics(lengths, partitions, options.prefix),
  };
}

/** Ascending, then every second one backwards: up and down again. */
function lightAtBothEnds(rows: readonly number[], work: readonly number[]): number[] {
  const sorted = [...rows].sort((a, b) => work[a]! - work[b]! || a - b);
  return [...sorted.filter((_, k) => k % 2 === 0), ...sorted.filter((_, k) => k % 2 === 1).reverse()];
}

/** Like `karmarkarKarp` on whole groups, the same number of groups each. Rows of a group must be neighbours. */
export function groupBalancedPartitions(
  lengths: readonly number[],
  groupIds: readonly string[],
  partitions: number,
): number[][] {
  if (groupIds.length !== lengths.length)
    throw new RangeError(`${lengths.length} lengths but ${groupIds.length} group ids`);
  const groups: number[][] = [];
  for (const row of lengths.keys()) {
    if (row > 0 && groupIds[row] === groupIds[row - 1]) groups.at(-1)!.push(row);
    else groups.push([row]);
  }
  const work = groups.map((rows) => rows.reduce((sum, row) => sum + workload(lengths[row]!), 0));
  return karmarkarKarp(work, partitions, true).map((part) => part.flatMap((k) => groups[k]!).sort((a, b) => a - b));
}

/** Tokens per rank as the rows came and as they are dealt now. */
export function balanceMetrics(
  lengths: readonly number[],
  partitions: readonly (readonly number[])[],
  prefix = 'global_seqlen',
): Record<string, number> {
  const total = lengths.reduce((sum, length) => sum + length, 0);
  const size = Math.max(1, Math.floor(lengths.length / partitions.length));
  const before: number[] = [];
  for (let start = 0; start < lengths.length; start += size)
    before.push(lengths.slice(start, start + size).reduce((sum, length) => sum + length, 0));
  const after = partitions.map((rows) => rows.reduce((sum, row) => sum + lengths[row]!, 0));
  const [min, max] = [Math.min(...before), Math.max(...before)];
  return {
    [`${prefix}/min`]: min,
    [`${prefix}/max`]: max,
    [`${prefix}/minmax_diff`]: max - min,
    [`${prefix}/balanced_min`]: Math.min(...after),
    [`${prefix}/balanced_max`]: Math.max(...after),
    [`${prefix}/mean`]: total / partitions.length,
  };
}
