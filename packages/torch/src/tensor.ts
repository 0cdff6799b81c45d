/** A tensor of libtorch: a slot number with methods. See `scope.ts` for who frees it. */

import type { DType } from './dtype.js';
import * as aten from './generated/ops.js';
import { native } from './native.js';
import { formatTensor } from './print.js';
import { TensorHandle } from './tensor-handle.js';

type Operand = Tensor | number;

export class Tensor extends TensorHandle {
  override toString(): string {
    return this.handle < 0 ? 'tensor(disposed)' : formatTensor(this);
  }

  [Symbol.for('nodejs.util.inspect.custom')](): string {
    return this.toString();
  }

  // --- Autograd -------------------------------------------------------------------------------------------------

  get requiresGrad(): boolean {
    return native.flag(this.handle, 0);
  }

  setRequiresGrad(value = true): this {
    native.setRequiresGrad(this.handle, value);
    return this;
  }

  /** The accumulated gradient, as a new handle on it; null when there is none. */
  get grad(): Tensor | null {
    const handle = native.gradOf(this.handle);
    return handle === -1 ? null : new Tensor(handle);
  }

  setGrad(grad: Tensor | null): void {
    native.setGrad(this.handle, grad ? grad.handle : -1);
  }

  backward(gradient?: Tensor, options: { retainGraph?: boolean } = {}): void {
    native.backward([this.handle], [gradient ? gradient.handle : -1], options.retainGraph ?? false);
  }

  detach(): Tensor {
    return aten.detach(this);
  }

  // --- Arithmetic -----------------------------------------------------------------------------------------------

  add(other: Operand, alpha?: number): Tensor {
    return typeof other === 'number' ? aten.add_Scalar(this, other, alpha) : aten.add_Tensor(this, other, alpha);
  }
  add_(other: Operand, alpha?: number): this {
    if (typeof other === 'number') aten.add__Scalar(this, other, alpha);
    else aten.add__Tensor(this, other, alpha);
    return this;
  }
  sub(other: Operand): Tensor {
    return typeof other === 'number' ? aten.sub_Scalar(this, other) : aten.sub_Tensor(this, other);
  }
  sub_(other: Operand): this {
    if (typeof other === 'number') aten.sub__Scalar(this, other);
    else aten.sub__Tensor(this, other);
    return this;
  }
  /** `value - this` */
  rsub(value: number): Tensor {
    return aten.rsub_Scalar(this, value);
  }
  mul(other: Operand): Tensor {
    return typeof other === 'number' ? aten.mul_Scalar(this, other) : aten.mul_Tensor(this, other);
  }
  mul_(other: Operand): this {
    if (typeof other === 'number') aten.mul__Scalar(this, other);
    else aten.mul__Tensor(this, other);
    return this;
  }
  div(other: Operand): Tensor {
    return typeof other === 'number' ? aten.div_Scalar(this, other) : aten.div_Tensor(this, other);
  }
  div_(other: Operand): this {
    if (typeof other === 'number') aten.div__Scalar(this, other);
    else aten.div__Tensor(this, other);
    return this;
  }
  floorDivide(other: Operand): Tensor {
    return typeof other === 'number'
      ? aten.div_Scalar_mode(this, other, 'floor')
      : aten.div_Tensor_mode(this, other, 'floor');
  }
  remainder(other: Operand): Tensor {
    return typeof other === 'number' ? aten.remainder_Scalar(this, other) : aten.remainder_Tensor(this, other);
  }
  pow(exponent: Operand): Tensor {
    return typeof exponent === 'number'
      ? aten.pow_Tensor_Scalar(this, exponent)
      : aten.pow_Tensor_Tensor(this, exponent);
  }
  neg(): Tensor {
    return aten.neg(this);
  }
  abs(): Tensor {
    return aten.abs(this);
  }
  sign(): Tensor {
    return aten.sign(this);
  }
  exp(): Tensor {
    return aten.exp(this);
  }
  log(): Tensor {
    return aten.log(this);
  }
  log1p(): Tensor {
    return aten.log1p(this);
  }
  sqrt(): Tensor {
    return aten.sqrt(this);
  }
  rsqrt(): Tensor {
    return aten.rsqrt(this);
  }
  square(): Tensor {
    return aten.square(this);
  }
  reciprocal(): Tensor {
    return aten.reciprocal(this);
  }
  sin(): Tensor {
    return aten.sin(this);
  }
  cos(): Tensor {
    return aten.cos(this);
  }
  tanh(): Tensor {
    return aten.tanh(this);
  }
  sigmoid(): Tensor {
    return aten.sigmoid(this);
  }
  relu(): Tensor {
    return aten.relu(this);
  }
  silu(): Tensor {
    return aten.silu(this);
  }
  gelu(approximate: 'none' | 'tanh' = 'none'): Tensor {
    return aten.gelu(this, approximate);
  }
  floor(): Tensor {
    return aten.floor(this);
  }
  round(): Tensor {
    return aten.round(this);
  }
  clamp(min: number | null, max: number | null = null): Tensor {
    return aten.clamp(this, min, max);
  }
  minimum(other: Tensor): Tensor {
    return aten.minimum(this, other);
  }
  maximum(other: Tensor): Tensor {
    return aten.maximum(this, other);
  }
  isnan(): Tensor {
    return aten.isnan(this);
  }
  isfinite(): Tensor {
    return aten.isfinite(this);
  }

  // --- Comparison -----------------------------------------------------------------------------------------------

  eq(other: Operand): Tensor {
    return typeof other === 'number' ? aten.eq_Scalar(this, other) : aten.eq_Tensor(this, other);
  }
  ne(other: Operand): Tensor {
    return typeof other === 'number' ? aten.ne_Scalar(this, other) : aten.ne_Tensor(this, other);
  }
  lt(other: Operand): Tensor {
    return typeof other === 'number' ? aten.lt_Scalar(this, other) : aten.lt_Tensor(this, other);
  }
  le(other: Operand): Tensor {
    return typeof other === 'number' ? aten.le_Scalar(this, other) : aten.le_Tensor(this, other);
  }
  gt(other: Operand): Tensor {
    return typeof other === 'number' ? aten.gt_Scalar(this, other) : aten.gt_Tensor(this, other);
  }
  ge(other: Operand): Tensor {
    return typeof other === 'number' ? aten.ge_Scalar(this, other) : aten.ge_Tensor(this, other);
  }
  logicalAnd(other: Tensor): Tensor {
    return aten.logical_and(this, other);
  }
  logicalOr(other: Tensor): Tensor {
    return aten.logical_or(this, other);
  }
  logicalNot(): Tensor {
    return aten.logical_not(this);
  }
  /** Same shape and equal elements. */
  equal(other: Tensor): boolean {
    return aten.equal(this, other);
  }
  allclose(other: Tensor, options: { rtol?: number; atol?: number; equalNan?: boolean } = {}): boolean {
    return aten.allclose(this, other, options.rtol, options.atol, options.equalNan);
  }
  maskedFill(mask: Tensor, value: number): Tensor {
    return aten.masked_fill_Scalar(this, mask, value);
  }
  maskedFill_(mask: Tensor, value: number): this {
    aten.masked_fill__Scalar(this, mask, value);
    return this;
  }
  maskedSelect(mask: Tensor): Tensor {
    return aten.masked_select(this, mask);
  }

  // --- Reductions -----------------------------------------------------------------------------------------------

  sum(dim?: number | readonly number[] | null, keepdim = false, dtype?: DType): Tensor {
    return dim === undefined || dim === null
      ? aten.sum(this, dtype)
      : aten.sum_dim_IntList(this, typeof dim === 'number' ? [dim] : dim, keepdim, dtype);
  }
  mean(dim?: number | readonly number[] | null, keepdim = false): Tensor {
    return dim === undefined || dim === null
      ? aten.mean(this)
      : aten.mean_dim(this, typeof dim === 'number' ? [dim] : dim, keepdim);
  }
  /** Variance; `correction` 1 is the unbiased one. */
  var(dim: number | readonly number[] | null = null, options: { correction?: number; keepdim?: boolean } = {}): Tensor {
    return aten.var_correction(
      this,
      typeof dim === 'number' ? [dim] : dim,
      options.correction ?? 1,
      options.keepdim ?? false,
    );
  }
  std(dim: number | readonly number[] | null = null, options: { correction?: number; keepdim?: boolean } = {}): Tensor {
    return aten.std_correction(
      this,
      typeof dim === 'number' ? [dim] : dim,
      options.correction ?? 1,
      options.keepdim ?? false,
    );
  }
  amax(dim: number | readonly number[] = [], keepdim = false): Tensor {
    return aten.amax(this, typeof dim === 'number' ? [dim] : dim, keepdim);
  }
  amin(dim: number | readonly number[] = [], keepdim = false): Tensor {
    return aten.amin(this, typeof dim === 'number' ? [dim] : dim, keepdim);
  }
  max(): Tensor {
    return aten.max(this);
  }
  min(): Tensor {
    return aten.min(this);
  }
  argmax(dim?: number, keepdim = false): Tensor {
    return aten.argmax(this, dim, keepdim);
  }
  argmin(dim?: number, keepdim = false): Tensor {
    return aten.argmin(this, dim, keepdim);
  }
  any(dim?: number, keepdim = false): Tensor {
    return dim === undefined ? aten.any(this) : aten.any_dim(this, dim, keepdim);
  }
  all(dim?: number, keepdim = false): Tensor {
    return dim === undefined ? aten.all(this) : aten.all_dim(this, dim, keepdim);
  }
  cumsum(dim: number): Tensor {
    return aten.cumsum(this, dim);
  }
  logsumexp(dim: number | readonly number[], keepdim = false): Tensor {
    return aten.logsumexp(this, typeof dim === 'number' ? [dim] : dim, keepdim);
  }
  softmax(dim: number, dtype?: DType): Tensor {
    return aten.softmax_int(this, dim, dtype);
  }
  logSoftmax(dim: number, dtype?: DType): Tensor {
    return aten.log_softmax_int(this, dim, dtype);
  }
  norm(ord = 2): Tensor {
    return aten.linalg_vector_norm(this, ord);
  }
  sort(dim = -1, descending = false): [Tensor, Tensor] {
    return aten.sort(this, dim, descending);
  }
  argsort(dim = -1, descending = false): Tensor {
    return aten.argsort(this, dim, descending);
  }
  topk(k: number, dim = -1): [Tensor, Tensor] {
    return aten.topk(this, k, dim);
  }
  nonzero(): Tensor {
    return aten.nonzero(this);
  }

  // --- Products -------------------------------------------------------------------------------------------------

  matmul(other: Tensor): Tensor {
    return aten.matmul(this, other);
  }
  mm(other: Tensor): Tensor {
    return aten.mm(this, other);
  }
  bmm(other: Tensor): Tensor {
    return aten.bmm(this, other);
  }
  /** `this · weightᵀ + bias` */
  linear(weight: Tensor, bias?: Tensor | null): Tensor {
    return aten.linear(this, weight, bias);
  }

  // --- Shape ----------------------------------------------------------------------------------------------------

  reshape(...shape: number[]): Tensor {
    return aten.reshape(this, shape);
  }
  view(...shape: number[]): Tensor {
    return aten.view(this, shape);
  }
  flatten(startDim = 0, endDim = -1): Tensor {
    return aten.flatten_using_ints(this, startDim, endDim);
  }
  squeeze(dim?: number): Tensor {
    return dim === undefined ? aten.squeeze(this) : aten.squeeze_dim(this, dim);
  }
  unsqueeze(dim: number): Tensor {
    return aten.unsqueeze(this, dim);
  }
  transpose(a: number, b: number): Tensor {
    return aten.transpose_int(this, a, b);
  }
  permute(...dims: number[]): Tensor {
    return aten.permute(this, dims);
  }
  t(): Tensor {
    return aten.t(this);
  }
  expand(...shape: number[]): Tensor {
    return aten.expand(this, shape);
  }
  repeat(...times: number[]): Tensor {
    return aten.repeat(this, times);
  }
  /** Each element along `dim` n times (or as often as its own count): aabb. */
  repeatInterleave(times: number | Tensor, dim?: number): Tensor {
    return typeof times === 'number'
      ? aten.repeat_interleave_self_int(this, times, dim)
      : aten.repeat_interleave_self_Tensor(this, times, dim);
  }
  flip(...dims: number[]): Tensor {
    return aten.flip(this, dims);
  }
  contiguous(): Tensor {
    return aten.contiguous(this);
  }
  clone(): Tensor {
    return aten.clone(this);
  }

  // --- Indexing -------------------------------------------------------------------------------------------------

  /** One index along a dimension; the dimension goes away. A view. */
  select(dim: number, index: number): Tensor {
    return aten.select_int(this, dim, index);
  }
  /** `this[start:end:step]` along a dimension. A view. */
  slice(dim: number, start?: number | null, end?: number | null, step = 1): Tensor {
    return aten.slice_Tensor(this, dim, start, end, step);
  }
  narrow(dim: number, start: number, length: number): Tensor {
    return aten.narrow(this, dim, start, length);
  }
  indexSelect(dim: number, index: Tensor): Tensor {
    return aten.index_select(this, dim, index);
  }
  /** Advanced indexing: one index or mask tensor (or null for "all") per leading dimension. */
  index(...indices: (Tensor | null)[]): Tensor {
    return aten.index_Tensor(this, indices);
  }
  indexPut_(indices: (Tensor | null)[], values: Tensor, accumulate = false): this {
    aten.index_put_(this, indices, values, accumulate);
    return this;
  }
  indexAdd(dim: number, index: Tensor, source: Tensor): Tensor {
    return aten.index_add(this, dim, index, source);
  }
  indexAdd_(dim: number, index: Tensor, source: Tensor): this {
    aten.index_add_(this, dim, index, source);
    return this;
  }
  indexCopy_(dim: number, index: Tensor, source: Tensor): this {
    aten.index_copy_(this, dim, index, source);
    return this;
  }
  gather(dim: number, index: Tensor): Tensor {
    return aten.gather(this, dim, index);
  }
  scatter_(dim: number, index: Tensor, source: Operand): this {
    if (typeof source === 'number') aten.scatter__value(this, dim, index, source);
    else aten.scatter__src(this, dim, index, source);
    return this;
  }
  scatterAdd_(dim: number, index: Tensor, source: Tensor): this {
    aten.scatter_add_(this, dim, index, source);
    return this;
  }
  split(size: number | readonly number[], dim = 0): Tensor[] {
    return typeof size === 'number' ? aten.split_Tensor(this, size, dim) : aten.split_with_sizes(this, size, dim);
  }
  chunk(chunks: number, dim = 0): Tensor[] {
    return aten.chunk(this, chunks, dim);
  }
  unbind(dim = 0): Tensor[] {
    return aten.unbind_int(this, dim);
  }

  // --- Filling and moving ---------------------------------------------------------------------------------------

  copy_(source: Tensor, nonBlocking = false): this {
    aten.copy_(this, source, nonBlocking);
    return this;
  }
  fill_(value: number): this {
    aten.fill__Scalar(this, value);
    return this;
  }
  zero_(): this {
    aten.zero_(this);
    return this;
  }
  /** Another dtype or device; itself (a new handle) when nothing changes. */
  to(target: DType | string | { dtype?: DType; device?: string; nonBlocking?: boolean; copy?: boolean }): Tensor {
    if (typeof target === 'string') {
      if (/^(cpu|cuda|mps)/.test(target)) return aten.to_dtype_layout(this, undefined, null, target);
      return aten.to_dtype(this, target as DType);
    }
    return aten.to_dtype_layout(this, target.dtype, null, target.device, null, target.nonBlocking, target.copy);
  }
  float(): Tensor {
    return aten.to_dtype(this, 'float32');
  }
  long(): Tensor {
    return aten.to_dtype(this, 'int64');
  }
  bool(): Tensor {
    return aten.to_dtype(this, 'bool');
  }
  cpu(): Tensor {
    return this.to('cpu');
  }
  pinMemory(): Tensor {
    return aten.pin_memory(this);
  }
}
