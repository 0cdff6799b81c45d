const BARS = '▁▂▃▄▅▆▇█';

/** Averages neighbours so that at most `width` numbers remain. */
export function condense(values: readonly number[], width: number): number[] {
  const finite = values.filter(Number.isFinite);
  if (finite.length <= width) return finite;
  return Array.from({ length: width }, (_, k) => {
    const from = Math.floor((k * finite.length) / width);
    const to = Math.floor(((k + 1) * finite.length) / width);
    const part = finite.slice(from, to);
    return part.reduce((a, b) => a + b, 0) / part.length;
  });
}

/** A curve in one line of text, between its own smallest and largest value. */
export function sparkline(values: readonly number[], width = 32): string {
  const points = condense(values, width);
  if (points.length === 0) return '';
  const low = Math.min(...points);
  const high = Math.max(...points);
  return points
    .map((value) => BARS[high > low ? Math.round(((value - low) / (high - low)) * (BARS.length - 1)) : 0])
    .join('');
}
