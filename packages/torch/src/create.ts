/** Making tensors. */
import { type DType, dtypeCode } from './dtype.js';
import { TorchError } from './errors.js';
import * as aten from './generated/ops.js';
import { type AnyTypedArray, native } from './native.js';
import { Tensor } from './tensor.js';
import type { NestedNumbers } from './tensor-handle.js';

export interface TensorOptions {
  dtype?: DType;
  device?: string;
  requiresGrad?: boolean;
}

const arrayDTypes = new Map<string, DType>([
  ['Float32Array', 'float32'],
  ['Float64Array', 'float64'],
  ['Int32Array', 'int32'],
  ['Int16Array', 'int16'],
  ['Int8Array', 'int8'],
  ['Uint8Array', 'uint8'],
  ['BigInt64Array', 'int64'],
]);

function shapeOf(data: NestedNumbers): number[] {
  const shape: number[] = [];
  for (let level: NestedNumbers | undefined = data; Array.isArray(level); level = level[0]) shape.push(level.length);
  return shape;
}

function flattenInto(
  data: NestedNumbers,
  shape: readonly number[],
  dim: number,
  out: Float64Array,
  at: number,
): number {
  if (!Array.isArray(data)) {
    if (dim !== shape.length) throw new TorchError('tensor(): the nested arrays are ragged');
    out[at] = Number(data);
    return at + 1;
  }
  if (data.length !== shape[dim])
    throw new TorchError(
      `tensor(): ragged arrays: expected ${shape[dim] ?? 'a number'} at depth ${dim}, got ${data.length}`,
    );
  for (const item of data) at = flattenInto(item, shape, dim + 1, out, at);
  return at;
}

function finish(made: Tensor, options: TensorOptions): Tensor {
  let result = made;
  if (options.device && options.device !== 'cpu') {
    result = made.to(options.device);
    made.dispose();
  }
  return options.requiresGrad ? result.setRequiresGrad() : result;
}

/**
 * A tensor from numbers: nested arrays (float32 unless told otherwise), or a typed array with its own dtype, flat or with a shape.
 *
 * @example
 * tensor([[1, 2], [3, 4]]);
 * tensor(new Int32Array([1, 2, 3, 4]), { shape: [2, 2], dtype: 'int64' });
 */
export function tensor(
  data: NestedNumbers | boolean | AnyTypedArray | readonly number[] | readonly boolean[],
  options: TensorOptions & { shape?: readonly number[] } = {},
): Tensor {
  if (ArrayBuffer.isView(data)) {
    const dtype = options.dtype ?? arrayDTypes.get(data.constructor.name);
    if (!dtype) throw new TorchError(`tensor(): give a dtype for a ${data.constructor.name}`);
    return finish(new Tensor(native.fromTypedArray(data, options.shape ?? [data.length], dtypeCode(dtype))), options);
  }
  const nested = data as NestedNumbers;
  const shape = shapeOf(nested);
  const flat = new Float64Array(shape.reduce((a, b) => a * b, 1));
  flattenInto(nested, shape, 0, flat, 0);
  const dtype = options.dtype ?? 'float32';
  return finish(new Tensor(native.fromTypedArray(flat, options.shape ?? shape, dtypeCode(dtype))), options);
}

function factory(made: Tensor, options: TensorOptions): Tensor {
  return options.requiresGrad ? made.setRequiresGrad() : made;
}

export function zeros(shape: readonly number[], options: TensorOptions = {}): Tensor {
  return factory(aten.zeros(shape, options.dtype ?? 'float32', null, options.device ?? 'cpu'), options);
}

export function ones(shape: readonly number[], options: TensorOptions = {}): Tensor {
  return factory(aten.ones(shape, options.dtype ?? 'float32', null, options.device ?? 'cpu'), options);
}

export function empty(shape: readonly number[], options: TensorOptions = {}): Tensor {
  return factory(aten.empty_memory_format(shape, options.dtype ?? 'float32', null, options.device ?? 'cpu'), options);
}

export function full(shape: readonly number[], value: number, options: TensorOptions = {}): Tensor {
  return factory(aten.full(shape, value, options.dtype ?? 'float32', null, options.device ?? 'cpu'), options);
}

/** Integers from start (0) up to, not including, end. int64 unless told otherwise. */
export function arange(start: number, end?: number, step = 1, options: TensorOptions = {}): Tensor {
  const [from, to] = end === undefined ? [0, start] : [start, end];
  return aten.arange_start_step(from, to, step, options.dtype ?? 'int64', null, options.device ?? 'cpu');
}

export function rand(shape: readonly number[], options: TensorOptions = {}): Tensor {
  return factory(aten.rand(shape, options.dtype ?? 'float32', null, options.device ?? 'cpu'), options);
}

export function randn(shape: readonly number[], options: TensorOptions = {}): Tensor {
  return factory(aten.randn(shape, options.dtype ?? 'float32', null, options.device ?? 'cpu'), options);
}

export function randint(low: number, high: number, shape: readonly number[], options: TensorOptions = {}): Tensor {
  return aten.randint_low(low, high, shape, options.dtype ?? 'int64', null, options.device ?? 'cpu');
}

export function randperm(n: number, options: TensorOptions = {}): Tensor {
  return aten.randperm(n, options.dtype ?? 'int64', null, options.device ?? 'cpu');
}

export function zerosLike(like: Tensor, options: TensorOptions = {}): Tensor {
  return factory(aten.zeros_like(like, options.dtype, null, options.device), options);
}

export function onesLike(like: Tensor, options: TensorOptions = {}): Tensor {
  return factory(aten.ones_like(like, options.dtype, null, options.device), options);
}

export function emptyLike(like: Tensor, options: TensorOptions = {}): Tensor {
  return factory(aten.empty_like(like, options.dtype, null, options.device), options);
}

export function cat(tensors: readonly Tensor[], dim = 0): Tensor {
  return aten.cat(tensors, dim);
}

export function stack(tensors: readonly Tensor[], dim = 0): Tensor {
  return aten.stack(tensors, dim);
}

/** `condition ? a : b`, element by element; either side may be a number. */
export function where(condition: Tensor, a: Tensor | number, b: Tensor | number): Tensor {
  if (typeof a === 'number')
    return typeof b === 'number' ? aten.where_Scalar(condition, a, b) : aten.where_ScalarSelf(condition, a, b);
  return typeof b === 'number' ? aten.where_ScalarOther(condition, a, b) : aten.where_self(condition, a, b);
}

export function einsum(equation: string, ...tensors: Tensor[]): Tensor {
  return aten.einsum(equation, tensors);
}
