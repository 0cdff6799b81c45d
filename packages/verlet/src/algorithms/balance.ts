/** Equal work for ranks and micro-batches. */

/** Cost of a sequence: linear layers and attention of a model of hidden size 4096. */
export function workload(length: number): number {
  return 24576 * length + length ** 2;
}

/** Micro-batches of about `maxTokenLen` tokens: as few as the total allows, longest first into the lightest. Row indices. */
export function rearrangeMicroBatches(lengths: readonly number[], maxTokenLen: number): number[][] {
  const total = lengths.reduce((sum, length) => sum + length, 0);
  const count = Math.max(1, Math.min(lengths.length, Math.ceil(total / maxTokenLen)));
  const parts = Array.from({ length: count }, () => ({ rows: [] as number[], load: 0 }));
  const order = lengths.map((_, row) => row).sort((a, b) => lengths[b]! - lengths[a]! || a - b);
  for (const row of order) {
    const lightest = parts.reduce((best, part) => (part.load < best.load ? part : best));
    lightest.rows.push(row);
    lightest.load += workload(lengths[row]!);
  }
  return parts.filter((part) => part.rows.length > 0).map((part) => part.rows.sort((a, b) => a - b));
}
