/** Seeded row orders. */

/** Numbers below `length`, shuffled when a seed is given (Fisher-Yates over a 32-bit counter generator). */
export function shuffledRows(length: number, seed?: number): number[] {
  const rows = Array.from({ length }, (_, k) => k);
  if (seed === undefined) return rows;
  let state = seed >>> 0;
  // splitmix32
  const next = (): number => {
    state = (state + 0x9e3779b9) >>> 0;
    let z = state;
    z = Math.imul(z ^ (z >>> 16), 0x21f0aaad);
    z = Math.imul(z ^ (z >>> 15), 0x735a2d97);
    return (z ^ (z >>> 15)) >>> 0;
  };
  for (let k = length - 1; k > 0; k--) {
    const other = Math.floor((next() / 2 ** 32) * (k + 1));
    [rows[k], rows[other]] = [rows[other]!, rows[k]!];
  }
  return rows;
}
