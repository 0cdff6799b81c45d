/** What every tensor has before any operator: a slot number, its description, its life and the way of its values into JavaScript. */
import { sharedBuffer } from './door.js';
import { type DType, dtypeName } from './dtype.js';
import { TorchError } from './errors.js';
import { native } from './native.js';
import { adopt, disposed, forget, hold, release, type Scope } from './scope.js';

export type NestedNumbers = number | NestedNumbers[];

export class TensorHandle {
  /** Slot number on the native side; negative once disposed. */
  handle: number;
  /** The scope that frees it, or null when it lives until `dispose()`. */
  owner: Scope | null = null;

  constructor(handle: number) {
    this.handle = handle;
    adopt(this);
  }

  // --- What it is -----------------------------------------------------------------------------------------------

  get shape(): number[] {
    const count = native.shape(this.handle);
    const buffer = sharedBuffer();
    const sizes = new Array<number>(count);
    for (let k = 0; k < count; k++) sizes[k] = buffer[k]!;
    return sizes;
  }

  get ndim(): number {
    return native.shape(this.handle);
  }

  /** Size of one dimension; negative counts from the end. */
  size(dim: number): number {
    const count = native.shape(this.handle);
    const index = dim < 0 ? dim + count : dim;
    if (index < 0 || index >= count) throw new TorchError(`size(${dim}): the tensor has ${count} dimensions`);
    return sharedBuffer()[index]!;
  }

  get numel(): number {
    return native.numel(this.handle);
  }

  get dtype(): DType {
    return dtypeName(native.dtype(this.handle));
  }

  /** `cpu` or `cuda:n`. */
  get device(): string {
    return native.device(this.handle);
  }

  get strides(): number[] {
    return native.stride(this.handle);
  }

  get nbytes(): number {
    return native.numel(this.handle) * native.elementSize(this.handle);
  }

  get isContiguous(): boolean {
    return native.flag(this.handle, 1);
  }

  get isLeaf(): boolean {
    return native.flag(this.handle, 2);
  }

  get isPinned(): boolean {
    return native.flag(this.handle, 3);
  }

  get isDisposed(): boolean {
    return this.handle < 0;
  }

  // --- Life -----------------------------------------------------------------------------------------------------

  /** Frees this handle now. Using the tensor afterwards is an error. */
  dispose(): void {
    if (this.handle < 0) return;
    forget(this);
    native.release(this.handle);
    this.handle = disposed;
    this.owner = null;
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  /** Lets it outlive every scope around; from now on it lives until `dispose()`. */
  keep(): this {
    if (this.handle < 0) throw new TorchError('keep(): the tensor was disposed');
    if (this.owner) release(this);
    return this;
  }

  /** Lets it outlive every scope around, until `dispose()` or until `holder` is collected: a parameter's gradient, a pass's activations. */
  heldBy(holder: object): this {
    if (this.handle < 0) throw new TorchError('heldBy(): the tensor was disposed');
    hold(this, holder);
    return this;
  }

  // --- Out of libtorch ------------------------------------------------------------------------------------------

  /** The value of a one-element tensor. Waits for the device. */
  item(): number {
    return native.item(this.handle);
  }

  toFloat32Array(): Float32Array {
    return this.copyTo(new Float32Array(this.numel));
  }

  toFloat64Array(): Float64Array {
    return this.copyTo(new Float64Array(this.numel));
  }

  toInt32Array(): Int32Array {
    return this.copyTo(new Int32Array(this.numel));
  }

  toBigInt64Array(): BigInt64Array {
    return this.copyTo(new BigInt64Array(this.numel));
  }

  toUint8Array(): Uint8Array {
    return this.copyTo(new Uint8Array(this.numel));
  }

  /** All elements in row order as numbers. */
  toArray(): number[] {
    return Array.from(this.toFloat64Array());
  }

  /** Nested arrays in the tensor's shape; a plain number for a scalar. */
  toNested(): NestedNumbers {
    const values = this.toFloat64Array();
    const shape = this.shape;
    const stride = shape.map((_, k) => shape.slice(k + 1).reduce((a, b) => a * b, 1));
    const build = (dim: number, offset: number): NestedNumbers =>
      dim === shape.length
        ? values[offset]!
        : Array.from({ length: shape[dim]! }, (_, k) => build(dim + 1, offset + k * stride[dim]!));
    return build(0, 0);
  }

  /**
   * The memory of a contiguous CPU tensor itself, not a copy: for page-locked staging buffers that are written every step.
   * Wrap it in the typed array that fits the dtype.
   */
  hostView(): ArrayBuffer {
    return native.hostView(this.handle);
  }

  private copyTo<A extends Float32Array | Float64Array | Int32Array | BigInt64Array | Uint8Array>(array: A): A {
    native.copyToTypedArray(this.handle, array);
    return array;
  }
}
