/** Log-probabilities of one batch as arrays, and verl's masked statistics on them. */
import type { Tensor } from '@verlet/torch';

export const safetyBound = 20;

export const bounded = (value: number): number => Math.max(-safetyBound, Math.min(safetyBound, value));

export class Tokens {
  readonly rows: number;
  readonly columns: number;
  readonly mask: Float64Array;
  readonly old: Float64Array;
  readonly rollout: Float64Array;
  /** log(pi_old / pi_rollout). */
  readonly logRatio: Float64Array;
  readonly count: number;
  /** Tokens per row. */
  readonly lengths: number[];

  constructor(oldLogProbs: Tensor, rolloutLogProbs: Tensor, responseMask: Tensor) {
    const [rows, columns] = responseMask.shape as [number, number];
    for (const [name, other] of Object.entries({ oldLogProbs, rolloutLogProbs }))
      if (other.ndim !== 2 || other.size(0) !== rows || other.size(1) !== columns)
        throw new RangeError(`${name} is [${other.shape.join(', ')}], the response mask [${rows}, ${columns}]`);
    this.rows = rows;
    this.columns = columns;
    this.mask = responseMask.toFloat64Array();
    this.old = oldLogProbs.toFloat64Array();
    this.rollout = rolloutLogProbs.toFloat64Array();
    this.logRatio = this.old.map((value, k) => value - this.rollout[k]!);
    this.lengths = this.rowSums(new Float64Array(rows * columns).fill(1));
    this.count = this.lengths.reduce((sum, length) => sum + length, 0);
    if (this.count === 0) throw new RangeError('the response mask has no token: there is nothing to correct');
  }

  /** Over the tokens of each row. */
  rowSums(values: Float64Array): number[] {
    return Array.from({ length: this.rows }, (_, row) => {
      let sum = 0;
      for (let k = row * this.columns; k < (row + 1) * this.columns; k++)
        if (this.mask[k] !== 0) sum += values[k]! * this.mask[k]!;
      return sum;
    });
  }

  rowMeans(values: Float64Array): number[] {
    return this.rowSums(values).map((sum, row) => sum / (this.lengths[row]! + 1e-8));
  }

  /** 0 for a row without tokens. */
  rowMaxima(values: Float64Array): number[] {
    return Array.from({ length: this.rows }, (_, row) => {
      let largest = Number.NEGATIVE_INFINITY;
      for (let k = row * this.columns; k < (row + 1) * this.columns; k++)
        if (this.mask[k] !== 0 && values[k]! > largest) largest = values[k]!;
      return largest === Number.NEGATIVE_INFINITY ? 0 : largest;
    });
  }

  /** Of the values, or of what `of` makes of them. */
  mean(values: Float64Array, of?: (value: number) => number): number {
    const { mask } = this;
    let sum = 0;
    for (let k = 0; k < values.length; k++) if (mask[k] !== 0) sum += (of ? of(values[k]!) : values[k]!) * mask[k]!;
    return sum / (this.count + 1e-8);
  }

  /** Smallest and largest over all tokens. */
  range(values: Float64Array): { min: number; max: number } {
    let min = Number.POSITIVE_INFINITY;
    let max = Number.NEGATIVE_INFINITY;
    for (let k = 0; k < values.length; k++)
      if (this.mask[k] !== 0) {
        if (values[k]! < min) min = values[k]!;
        if (values[k]! > max) max = values[k]!;
      }
    return { min, max };
  }

  /** Population standard deviation of the values held between two bounds. */
  deviation(values: Float64Array, low: number, high: number): number {
    if (this.count <= 1) return 0;
    const held = (value: number): number => Math.max(low, Math.min(high, value));
    const mean = this.mean(values, held);
    return Math.sqrt(Math.max(0, this.mean(values, (value) => held(value) ** 2) - mean * mean));
  }

  /** A number per row on every token. */
  spread(perRow: readonly number[]): Float64Array {
    const values = new Float64Array(this.rows * this.columns);
    for (let row = 0; row < this.rows; row++) values.fill(perRow[row]!, row * this.columns, (row + 1) * this.columns);
    return values;
  }
}

export const average = (values: readonly number[]): number =>
  values.length === 0 ? 0 : values.reduce((sum, value) => sum + value, 0) / values.length;

export const shareOf = (values: readonly number[], holds: (value: number) => boolean): number =>
  average(values.map((value) => (holds(value) ? 1 : 0)));

export const largest = (values: readonly number[]): number => values.reduce((a, b) => Math.max(a, b), -Infinity);
export const smallest = (values: readonly number[]): number => values.reduce((a, b) => Math.min(a, b), Infinity);

/** With Bessel's correction; 0 for one value. */
export function sampleDeviation(values: readonly number[]): number {
  if (values.length < 2) return 0;
  const mean = average(values);
  return Math.sqrt(values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / (values.length - 1));
}
