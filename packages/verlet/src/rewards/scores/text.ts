/** The last `count` characters, counted as Python does (code points, not UTF-16 units). */
export function lastCharacters(text: string, count: number): string {
  const tail = text.slice(-2 * count);
  return /[\ud800-\udfff]/.test(tail) ? Array.from(tail).slice(-count).join('') : tail.slice(-count);
}

/** A ground truth as text; numbers are common in hand-written rows. */
export function answerText(groundTruth: unknown): string {
  if (typeof groundTruth === 'string') return groundTruth;
  if (typeof groundTruth === 'number' || typeof groundTruth === 'bigint' || typeof groundTruth === 'boolean') {
    return String(groundTruth);
  }
  throw new TypeError(
    `ground_truth must be a string or a number, but it is ${JSON.stringify(groundTruth) ?? 'missing'}`,
  );
}
