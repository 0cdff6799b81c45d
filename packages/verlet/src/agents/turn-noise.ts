/**
 * Noise is a function of seed, sample and position in the output. Every turn starts at position 0 again: with one seed for all
 * turns the second would be drawn with the very noise of the first.
 */
export function turnNoise(seed: number | undefined, turn: number): { seed?: number } {
  return seed === undefined || turn === 0 ? {} : { seed: mixedSeed(seed, turn) };
}

/** A seed of 52 bits from a seed and a number that tells apart what must not share its noise. */
export function mixedSeed(seed: number, key: number): number {
  let low = (seed ^ 0x3c6ef372) >>> 0;
  let high = (Math.floor(seed / 2 ** 32) ^ 0xa54ff53a) >>> 0;
  for (const value of [key >>> 0, Math.floor(key / 2 ** 32) >>> 0, 0x510e527f]) {
    low = Math.imul(low ^ value, 0x9e3779b1) ^ (low >>> 15) ^ high;
    high = Math.imul(high ^ (value + 0x7f4a7c15), 0x85ebca6b) ^ (high >>> 13) ^ low;
  }
  return (low >>> 0) * 2 ** 20 + ((high >>> 0) & 0xfffff);
}
