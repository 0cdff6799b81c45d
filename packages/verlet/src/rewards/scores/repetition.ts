/**
 * Share of n-grams that repeat an earlier one, times `-maxPenalty`: 0 for a text without repetition, close to
 * `-maxPenalty` for one that loops. Works on words or on token ids.
 */
export function repetitionPenalty(sequence: string | ArrayLike<number | string>, ngram = 3, maxPenalty = 1): number {
  if (!(ngram >= 1)) throw new RangeError(`ngram must be at least 1, but it is ${ngram}`);
  const items =
    typeof sequence === 'string' ? sequence.toLowerCase().split(/\s+/).filter(Boolean) : Array.from(sequence);
  const total = items.length - ngram + 1;
  if (total <= 0) return 0;
  const seen = new Set<string>();
  for (let at = 0; at < total; at++) seen.add(items.slice(at, at + ngram).join('\u241f'));
  return -(1 - seen.size / total) * maxPenalty || 0;
}
