/** What guards look at that no other metric says: groups without a signal, text that repeats itself. */
import type { DataProto } from '../../protocol/index.js';

/** Share of the groups (of two samples or more) in which every sample got the same score: they give no gradient. */
export function constantRewardShare(groupIds: readonly string[], scores: readonly number[]): number | null {
  const groups = new Map<string, { low: number; high: number; size: number }>();
  for (const [row, id] of groupIds.entries()) {
    const score = scores[row]!;
    const group = groups.get(id);
    if (!group) groups.set(id, { low: score, high: score, size: 1 });
    else {
      group.low = Math.min(group.low, score);
      group.high = Math.max(group.high, score);
      group.size++;
    }
  }
  const compared = [...groups.values()].filter((group) => group.size > 1);
  if (compared.length === 0) return null;
  return compared.filter((group) => group.high - group.low < 1e-8).length / compared.length;
}

/** Share of the n-grams of a text that stood in it before: 0 for a text without repetition, near 1 for a loop. */
export function repeatedShare(tokens: readonly number[], n = 4): number | null {
  const total = tokens.length - n + 1;
  // Of a short text the share is chance.
  if (total < 2 * n) return null;
  // A 53-bit hash per n-gram, sorted: several times as fast as a set of texts, and a chance collision moves nothing.
  const hashes = new Float64Array(total);
  for (let k = 0; k < total; k++) {
    let low = 0x243f6a88;
    let high = 0x85a308d3;
    for (let i = k; i < k + n; i++) {
      low = Math.imul(low ^ tokens[i]!, 0x9e3779b1);
      low ^= low >>> 15;
      high = Math.imul(high ^ tokens[i]!, 0x85ebca6b);
      high ^= high >>> 13;
    }
    hashes[k] = (low >>> 0) * 2 ** 21 + ((high >>> 0) & 0x1fffff);
  }
  hashes.sort();
  let repeated = 0;
  for (let k = 1; k < total; k++) if (hashes[k] === hashes[k - 1]) repeated++;
  return repeated / total;
}

/** Beyond this a response's repetition is read from its end, where loops are. */
const READ_TOKENS = 2048;

/** Guard metrics of a batch. */
export function guardMeasures(batch: DataProto): Record<string, number> {
  const scores = batch.tensor('token_level_scores');
  const [rows, width] = scores.shape as [number, number];
  const values = scores.toFloat32Array();
  const totals = Array.from({ length: rows }, (_, row) => {
    let sum = 0;
    for (let k = 0; k < width; k++) sum += values[row * width + k]!;
    return sum;
  });
  const metrics: Record<string, number> = {};
  const constant = constantRewardShare(batch.column<string>('uid'), totals);
  if (constant !== null) metrics['guard/constant_reward_groups'] = constant;

  const ids = batch.tensor('responses').toFloat32Array();
  const mask = batch.tensor('response_mask').toFloat32Array();
  const shares: number[] = [];
  for (let row = 0; row < rows; row++) {
    const sampled: number[] = [];
    for (let k = row * width; k < (row + 1) * width; k++) if (mask[k] === 1) sampled.push(ids[k]!);
    const share = repeatedShare(sampled.slice(-READ_TOKENS));
    if (share !== null) shares.push(share);
  }
  if (shares.length) metrics['guard/repetition'] = shares.reduce((a, b) => a + b, 0) / shares.length;
  return metrics;
}
