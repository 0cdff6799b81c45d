/**
 * Advantages are computed once per step on plain arrays: loops over tokens as tensor operations would cost one operator call
 * per column. Arithmetic is in double precision whatever the tensors hold.
 */
import { type Tensor, tensor } from '@verlet/torch';
import { checkVarianceCount } from '../masked.js';

/** Row-major [rows, columns]. */
export interface Matrix {
  rows: number;
  columns: number;
  data: Float64Array;
}

export function readMatrix(source: Tensor): Matrix {
  const [rows, columns] = source.shape;
  if (rows === undefined || columns === undefined || source.ndim !== 2)
    throw new RangeError(`expected a tensor [rows, tokens], got [${source.shape.join(', ')}]`);
  return { rows, columns, data: source.toFloat64Array() };
}

export function writeMatrix({ rows, columns, data }: Matrix, like: Tensor): Tensor {
  const dtype = like.dtype === 'float64' ? 'float64' : 'float32';
  return tensor(data, { shape: [rows, columns], dtype, device: like.device });
}

export function rowSums({ rows, columns, data }: Matrix): Float64Array {
  const sums = new Float64Array(rows);
  for (let row = 0; row < rows; row++) for (let t = 0; t < columns; t++) sums[row]! += data[row * columns + t]!;
  return sums;
}

/** One number per row on all of its tokens. */
export function spread(scalars: Float64Array, mask: Matrix): Matrix {
  const { rows, columns } = mask;
  const data = new Float64Array(rows * columns);
  for (let row = 0; row < rows; row++)
    for (let k = row * columns; k < (row + 1) * columns; k++)
      if (mask.data[k] !== 0) data[k] = scalars[row]! * mask.data[k]!;
  return { rows, columns, data };
}

/** Undiscounted sum of this and later rewards, rewards outside the mask left out. */
export function rewardToGo(rewards: Matrix, mask: Matrix): Matrix {
  const { rows, columns } = rewards;
  const data = new Float64Array(rows * columns);
  for (let row = 0; row < rows; row++) {
    let sum = 0;
    for (let t = columns - 1; t >= 0; t--) {
      const at = row * columns + t;
      sum += rewards.data[at]! * mask.data[at]!;
      data[at] = sum;
    }
  }
  return { rows, columns, data };
}

export function timesMask(values: Matrix, mask: Matrix): Matrix {
  return { ...values, data: values.data.map((value, k) => (mask.data[k] === 0 ? 0 : value * mask.data[k]!)) };
}

/** The rule of `maskedWhiten`, on arrays. */
export function whiten(values: Matrix, mask: Matrix): Matrix {
  let count = 0;
  let sum = 0;
  for (let k = 0; k < values.data.length; k++)
    if (mask.data[k] !== 0) {
      count += mask.data[k]!;
      sum += values.data[k]! * mask.data[k]!;
    }
  checkVarianceCount(count);
  const mean = sum / (count + 1e-8);
  let squares = 0;
  for (let k = 0; k < values.data.length; k++)
    if (mask.data[k] !== 0) squares += (values.data[k]! - mean) ** 2 * mask.data[k]!;
  const variance = (squares / (count + 1e-8)) * (count / (count - 1));
  const scale = 1 / Math.sqrt(variance + 1e-8);
  return { ...values, data: values.data.map((value) => (value - mean) * scale) };
}
