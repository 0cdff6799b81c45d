/** Row orders: seeded shuffles, and equal work for parts of a batch. */

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

interface Differenced {
  /** Parts by falling sum; the spread is the first sum less the last. */
  parts: { rows: number[]; sum: number }[];
}

const spread = (state: Differenced): number => state.parts[0]!.sum - state.parts.at(-1)!.sum;

/**
 * Rows in `count` parts of nearly equal cost by largest differencing (Karmarkar and Karp 1982): the two most uneven partial
 * partitions are merged, heavy against light, until one is left. With `equalSize` every part has the same number of rows.
 */
export function balancedPartitions(costs: readonly number[], count: number, equalSize: boolean): number[][] {
  if (!(Number.isInteger(count) && count > 0)) throw new RangeError(`${count} parts`);
  if (equalSize && costs.length % count !== 0)
    throw new RangeError(`${costs.length} rows do not divide into ${count} parts of equal size`);
  if (costs.length < count) throw new RangeError(`${costs.length} rows for ${count} parts`);
  const order = costs.map((_, row) => row).sort((a, b) => costs[b]! - costs[a]! || a - b);
  const states: Differenced[] = [];
  const one = (row: number) => ({ rows: [row], sum: costs[row]! });
  if (equalSize)
    for (let start = 0; start < order.length; start += count)
      states.push({ parts: order.slice(start, start + count).map(one) });
  else
    for (const row of order)
      states.push({ parts: [one(row), ...Array.from({ length: count - 1 }, () => ({ rows: [], sum: 0 }))] });
  states.sort((a, b) => spread(b) - spread(a));
  while (states.length > 1) {
    const [first, second] = states.splice(0, 2) as [Differenced, Differenced];
    const parts = first.parts.map((part, k) => {
      const light = second.parts[count - 1 - k]!;
      return { rows: [...part.rows, ...light.rows], sum: part.sum + light.sum };
    });
    const merged = { parts: parts.sort((a, b) => b.sum - a.sum) };
    let at = states.findIndex((state) => spread(state) <= spread(merged));
    if (at < 0) at = states.length;
    states.splice(at, 0, merged);
  }
  const parts = states[0]!.parts.map((part) => part.rows.sort((a, b) => a - b));
  return parts.sort((a, b) => (a[0] ?? costs.length) - (b[0] ?? costs.length));
}
