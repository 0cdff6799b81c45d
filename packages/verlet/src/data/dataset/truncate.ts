/** What happens to a prompt that is too long: `left` keeps the tail, `right` the head, `middle` both ends. */
export type Truncation = 'error' | 'left' | 'right' | 'middle';

export function truncateIds(ids: Int32Array, maxLength: number, side: Exclude<Truncation, 'error'>): Int32Array {
  if (ids.length <= maxLength) return ids;
  if (side === 'left') return ids.slice(ids.length - maxLength);
  if (side === 'right') return ids.slice(0, maxLength);
  const head = Math.floor(maxLength / 2);
  const kept = new Int32Array(maxLength);
  kept.set(ids.subarray(0, head));
  kept.set(ids.subarray(ids.length - (maxLength - head)), head);
  return kept;
}
