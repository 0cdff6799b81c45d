/** A stream of numbers in [0, 1). */
export type Random = () => number;

/** mulberry32: small, fast, and the same on every machine. */
export function seededRandom(seed: number): Random {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

/** `count` of the items in random order, without repetition (Fisher-Yates from the front). */
export function chooseRandomly<T>(items: readonly T[], count: number, random: Random): T[] {
  const pool = [...items];
  const wanted = Math.min(count, pool.length);
  for (let k = 0; k < wanted; k++) {
    const other = k + Math.floor(random() * (pool.length - k));
    [pool[k], pool[other]] = [pool[other]!, pool[k]!];
  }
  return pool.slice(0, wanted);
}
