/** Which rank gets which rows. */
import type { DataProto } from '../protocol/index.js';

/**
 * Deals rows out in rounds of one row per rank, the heaviest row of a round to the rank with the least work so far. Every rank
 * has one row of every round, so that rows k*M to (k+1)*M are the k-th mini-batch of M rows whatever the number of ranks: two
 * ranks make the update that one rank makes, with nearly equal work. Without work, rows go out in turn.
 */
export function dealRows(count: number, worldSize: number, work?: ArrayLike<number>): number[][] {
  if (count % worldSize !== 0) throw new RangeError(`${count} rows do not divide among ${worldSize} ranks`);
  const shares = Array.from({ length: worldSize }, () => ({ rows: [] as number[], load: 0 }));
  for (let start = 0; start < count; start += worldSize) {
    const round = Array.from({ length: worldSize }, (_, k) => start + k);
    const takers = shares.map((_, rank) => rank);
    if (work) {
      round.sort((a, b) => work[b]! - work[a]! || a - b);
      takers.sort((a, b) => shares[a]!.load - shares[b]!.load || a - b);
    }
    for (const [k, row] of round.entries()) {
      const share = shares[takers[k]!]!;
      share.rows.push(row);
      share.load += work?.[row] ?? 0;
    }
  }
  return shares.map(({ rows }) => rows);
}

/** Tokens of each row; undefined where the batch does not say, or does not want to be balanced. */
export function rowLengths(batch: DataProto): Float64Array | undefined {
  const mask = batch.batch.get('attention_mask');
  if (mask?.ndim !== 2 || batch.metaInfo.balance_batch === false) return undefined;
  const totals = mask.sum(-1);
  const lengths = totals.toFloat64Array();
  totals.dispose();
  return lengths;
}
