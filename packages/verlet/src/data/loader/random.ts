/** Random numbers that are a function of a seed and a counter, so that any position can be taken up again. */

/** 32 well-mixed bits of two integers (the finaliser of MurmurHash3 over both halves). */
export function hash32(seed: number, counter: number): number {
  let h = (seed ^ 0x9e3779b9) >>> 0;
  for (const word of [counter >>> 0, Math.floor(counter / 2 ** 32) >>> 0, seed >>> 0]) {
    h = Math.imul(h ^ word, 0x85ebca6b);
    h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
    h ^= h >>> 16;
  }
  return h >>> 0;
}

/** A number in [0, 1). */
export function uniform(seed: number, counter: number): number {
  return hash32(seed, counter) / 2 ** 32;
}

/** 0 to length - 1 in the order that belongs to this seed and epoch. */
export function permutation(length: number, seed: number, epoch: number): Int32Array {
  const order = Int32Array.from({ length }, (_, index) => index);
  const stream = hash32(seed, epoch);
  for (let i = length - 1; i > 0; i--) {
    const j = Math.floor(uniform(stream, i) * (i + 1));
    const swapped = order[i] as number;
    order[i] = order[j] as number;
    order[j] = swapped;
  }
  return order;
}

/** A seeded choice, in ascending order. */
export function sampleWithoutReplacement(length: number, count: number, seed: number): Int32Array {
  return permutation(length, seed, 0).slice(0, count).sort();
}
