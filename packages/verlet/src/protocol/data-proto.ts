/**
 * The batch that travels through the flow: named tensors with rows first, per-row objects, and facts about the batch.
 *
 * Ownership: a DataProto owns a handle on each of its tensors, outside of every scope, and `dispose()` frees them. Per operation:
 *
 * - take over (the argument's tensors belong to the batch afterwards): the constructors, `set`, `union` (the other is left
 *   without tensors);
 * - move out: `pop` (dispose what it returns);
 * - share numbers under new handles, so that writing in place shows on both sides: `select`, `slice`, `chunk`, `split`, `item`,
 *   `foldBatchDim`, `unfoldBatchDim`, `unpadDataProto`, and `padDataProtoToDivisor` when nothing is to be padded;
 * - copy: `selectIdxs`, `repeat`, `sampleLevelRepeat`, `padding`, `concat`, `unfoldColumnChunks`, `miniBatches`;
 * - change in place: `reorder`, `rename`, `to`, `set`.
 *
 * Columns are never copied deeper than the array that holds the rows; their objects are shared.
 */
import { cat, scope, Tensor, tensor } from '@verlet/torch';
import { deepEqual } from './deep-equal.js';
import { shuffledRows } from './shuffle.js';

export type Tensors = Record<string, Tensor>;
export type NonTensors = Record<string, readonly unknown[]>;
export type MetaInfo = Record<string, unknown>;

export class DataProtoError extends Error {
  override readonly name = 'DataProtoError';
}

/** One row: tensors without their first dimension, and the row's objects. */
export interface DataProtoItem {
  batch: Tensors;
  nonTensorBatch: Record<string, unknown>;
  metaInfo: MetaInfo;
}

export class DataProto {
  readonly batch = new Map<string, Tensor>();
  readonly nonTensorBatch = new Map<string, readonly unknown[]>();
  metaInfo: MetaInfo;

  constructor(
    tensors: Iterable<[string, Tensor]> = [],
    nonTensors: Iterable<[string, readonly unknown[]]> = [],
    metaInfo: MetaInfo = {},
  ) {
    for (const [key, value] of tensors) this.batch.set(key, value.keep());
    for (const [key, value] of nonTensors) this.nonTensorBatch.set(key, value);
    this.metaInfo = metaInfo;
    this.checkConsistency();
  }

  /** Takes over the tensors. */
  static fromDict(parts: { tensors?: Tensors; nonTensors?: NonTensors; metaInfo?: MetaInfo }): DataProto {
    return new DataProto(
      Object.entries(parts.tensors ?? {}),
      Object.entries(parts.nonTensors ?? {}),
      parts.metaInfo ?? {},
    );
  }

  /** Tensors and arrays in one object, told apart by what they are. */
  static fromSingleDict(data: Record<string, Tensor | readonly unknown[]>, metaInfo: MetaInfo = {}): DataProto {
    const tensors: Tensors = {};
    const nonTensors: NonTensors = {};
    for (const [key, value] of Object.entries(data)) {
      if (value instanceof Tensor) tensors[key] = value;
      else nonTensors[key] = value;
    }
    return DataProto.fromDict({ tensors, nonTensors, metaInfo });
  }

  /** Number of rows. */
  get length(): number {
    for (const value of this.batch.values()) return value.size(0);
    for (const value of this.nonTensorBatch.values()) return value.length;
    return 0;
  }

  checkConsistency(): void {
    const length = this.length;
    for (const [key, value] of this.batch) {
      if (value.ndim === 0) throw new DataProtoError(`tensor '${key}' has no rows`);
      if (value.size(0) !== length)
        throw new DataProtoError(`tensor '${key}' has ${value.size(0)} rows, the batch has ${length}`);
    }
    for (const [key, value] of this.nonTensorBatch) {
      if (!Array.isArray(value)) throw new DataProtoError(`'${key}' must be an array with one entry per row`);
      if (value.length !== length)
        throw new DataProtoError(`'${key}' has ${value.length} entries, the batch has ${length} rows`);
    }
  }

  tensor(key: string): Tensor {
    const value = this.batch.get(key);
    if (!value)
      throw new DataProtoError(
        `the batch has no tensor '${key}'; it has: ${[...this.batch.keys()].join(', ') || 'none'}`,
      );
    return value;
  }

  column<T = unknown>(key: string): readonly T[] {
    const value = this.nonTensorBatch.get(key);
    if (!value)
      throw new DataProtoError(
        `the batch has no column '${key}'; it has: ${[...this.nonTensorBatch.keys()].join(', ') || 'none'}`,
      );
    return value as readonly T[];
  }

  has(key: string): boolean {
    return this.batch.has(key) || this.nonTensorBatch.has(key);
  }

  /** Puts a tensor in, taking it over; a tensor that was there before is freed. */
  set(key: string, value: Tensor): this {
    if (this.batch.size + this.nonTensorBatch.size > 0 && value.size(0) !== this.length)
      throw new DataProtoError(`tensor '${key}' has ${value.size(0)} rows, the batch has ${this.length}`);
    const before = this.batch.get(key);
    if (before && before !== value) before.dispose();
    this.batch.set(key, value.keep());
    return this;
  }

  setColumn(key: string, values: readonly unknown[]): this {
    if (this.batch.size + this.nonTensorBatch.size > 0 && values.length !== this.length)
      throw new DataProtoError(`'${key}' has ${values.length} entries, the batch has ${this.length} rows`);
    this.nonTensorBatch.set(key, values);
    return this;
  }

  /** One row as an item; its tensors are views with handles of their own. */
  item(index: number): DataProtoItem {
    const at = index < 0 ? index + this.length : index;
    if (!(at >= 0 && at < this.length)) throw new DataProtoError(`row ${index} of a batch of ${this.length}`);
    return {
      batch: Object.fromEntries([...this.batch].map(([key, value]) => [key, value.select(0, at)])),
      nonTensorBatch: Object.fromEntries([...this.nonTensorBatch].map(([key, value]) => [key, value[at]])),
      metaInfo: this.metaInfo,
    };
  }

  private mapRows(
    onTensor: (value: Tensor) => Tensor,
    onColumn: (value: readonly unknown[]) => readonly unknown[],
  ): DataProto {
    return new DataProto(
      [...this.batch].map(([key, value]): [string, Tensor] => [key, onTensor(value)]),
      [...this.nonTensorBatch].map(([key, value]): [string, readonly unknown[]] => [key, onColumn(value)]),
      { ...this.metaInfo },
    );
  }

  /** Rows from start to end as views. */
  slice(start = 0, end = this.length, step = 1): DataProto {
    const length = this.length;
    const from = Math.max(0, start < 0 ? start + length : start);
    const to = Math.min(length, end < 0 ? end + length : end);
    return this.mapRows(
      (value) => value.slice(0, from, Math.max(from, to), step),
      (value) => value.slice(from, Math.max(from, to)).filter((_, k) => k % step === 0),
    );
  }

  /** Rows by number, or by one boolean per row. Copies. */
  selectIdxs(rows: readonly number[] | readonly boolean[]): DataProto {
    const length = this.length;
    let indices: number[];
    if (rows.length > 0 && typeof rows[0] === 'boolean') {
      if (rows.length !== length) throw new DataProtoError(`a mask of ${rows.length} for ${length} rows`);
      indices = rows.flatMap((keep, k) => (keep ? [k] : []));
    } else indices = (rows as readonly number[]).map((row) => (row < 0 ? row + length : row));
    for (const row of indices)
      if (!(row >= 0 && row < length)) throw new DataProtoError(`row ${row} of a batch of ${length}`);
    return scope(() => {
      const byDevice = new Map<string, Tensor>();
      const index = (device: string): Tensor => {
        const made = byDevice.get(device) ?? tensor(Int32Array.from(indices), { dtype: 'int64', device });
        byDevice.set(device, made);
        return made;
      };
      return this.mapRows(
        (value) => value.indexSelect(0, index(value.device)),
        (value) => indices.map((row) => value[row]),
      );
    });
  }

  /** Some keys; all of a kind when not given. */
  select(
    keys: {
      batchKeys?: readonly string[];
      nonTensorBatchKeys?: readonly string[];
      metaInfoKeys?: readonly string[];
    } = {},
  ): DataProto {
    const {
      batchKeys = [...this.batch.keys()],
      nonTensorBatchKeys = [...this.nonTensorBatch.keys()],
      metaInfoKeys = Object.keys(this.metaInfo),
    } = keys;
    return new DataProto(
      batchKeys.map((key): [string, Tensor] => [key, this.tensor(key).detach()]),
      nonTensorBatchKeys.map((key): [string, readonly unknown[]] => [key, this.column(key)]),
      Object.fromEntries(metaInfoKeys.map((key) => [key, this.metaInfo[key]])),
    );
  }

  /** Moves keys out into a new batch. */
  pop(keys: {
    batchKeys?: readonly string[];
    nonTensorBatchKeys?: readonly string[];
    metaInfoKeys?: readonly string[];
  }): DataProto {
    const { batchKeys = [], nonTensorBatchKeys = [], metaInfoKeys = [] } = keys;
    // Look everything up before moving anything, so that a wrong name loses nothing.
    const tensors = batchKeys.map((key): [string, Tensor] => [key, this.tensor(key)]);
    const columns = nonTensorBatchKeys.map((key): [string, readonly unknown[]] => [key, this.column(key)]);
    for (const key of metaInfoKeys)
      if (!(key in this.metaInfo)) throw new DataProtoError(`the batch has no meta info '${key}'`);
    const meta = Object.fromEntries(metaInfoKeys.map((key) => [key, this.metaInfo[key]]));
    for (const key of batchKeys) this.batch.delete(key);
    for (const key of nonTensorBatchKeys) this.nonTensorBatch.delete(key);
    for (const key of metaInfoKeys) delete this.metaInfo[key];
    return new DataProto(tensors, columns, meta);
  }

  /** Renames tensor keys. */
  rename(from: string | readonly string[], to: string | readonly string[]): this {
    const before = typeof from === 'string' ? [from] : from;
    const after = typeof to === 'string' ? [to] : to;
    if (before.length !== after.length) throw new DataProtoError(`rename: ${before.length} names to ${after.length}`);
    const moved = before.map((key) => this.tensor(key));
    for (const [k, key] of after.entries())
      if ((this.batch.has(key) && !before.includes(key)) || after.indexOf(key) !== k)
        throw new DataProtoError(`rename: there is a tensor '${key}' already`);
    for (const key of before) this.batch.delete(key);
    for (const [k, key] of after.entries()) this.batch.set(key, moved[k]!);
    return this;
  }

  /** Adds the other's keys, taking over its tensors; a key that both have must hold the same values. */
  union(other: DataProto): this {
    if (
      this.batch.size + this.nonTensorBatch.size > 0 &&
      other.batch.size + other.nonTensorBatch.size > 0 &&
      other.length !== this.length
    )
      throw new DataProtoError(`union of ${this.length} and ${other.length} rows`);
    for (const [key, value] of other.batch) {
      const own = this.batch.get(key);
      if (own && own !== value && !sameTensor(own, value))
        throw new DataProtoError(`union: tensor '${key}' differs between the two batches`);
    }
    for (const [key, value] of other.nonTensorBatch) {
      const own = this.nonTensorBatch.get(key);
      if (own && !deepEqual(own, value))
        throw new DataProtoError(`union: column '${key}' differs between the two batches`);
    }
    for (const [key, value] of Object.entries(other.metaInfo))
      if (key in this.metaInfo && !deepEqual(this.metaInfo[key], value))
        throw new DataProtoError(`union: meta info '${key}' differs between the two batches`);
    for (const [key, value] of other.batch) {
      const own = this.batch.get(key);
      if (own === undefined) this.batch.set(key, value);
      else if (own !== value) value.dispose();
    }
    other.batch.clear();
    for (const [key, value] of other.nonTensorBatch)
      if (!this.nonTensorBatch.has(key)) this.nonTensorBatch.set(key, value);
    Object.assign(this.metaInfo, other.metaInfo);
    return this;
  }

  /** Equal parts as views. */
  chunk(count: number): DataProto[] {
    const length = this.length;
    if (length % count !== 0)
      throw new DataProtoError(`${length} rows do not divide into ${count} equal chunks; pad to a divisor first`);
    return this.split(length / count);
  }

  /** Parts of at most `size` rows as views; the last may be shorter. */
  split(size: number): DataProto[] {
    if (!(size > 0)) throw new DataProtoError(`split into parts of ${size} rows`);
    const parts: DataProto[] = [];
    for (let start = 0; start < this.length; start += size) parts.push(this.slice(start, start + size));
    return parts;
  }

  /** Rows joined (copied). `metaInfo.metrics` of all parts become lists; other meta info must agree. */
  static concat(parts: readonly DataProto[]): DataProto {
    const first = parts[0];
    if (!first) return new DataProto();
    for (const part of parts)
      if (
        [...part.batch.keys()].sort().join() !== [...first.batch.keys()].sort().join() ||
        [...part.nonTensorBatch.keys()].sort().join() !== [...first.nonTensorBatch.keys()].sort().join()
      )
        throw new DataProtoError(
          `concat: the parts have different keys: ${keysOf(first).join(', ')} and ${keysOf(part).join(', ')}`,
        );
    const meta = mergeMeta(parts.map((part) => part.metaInfo));
    return new DataProto(
      [...first.batch.keys()].map((key): [string, Tensor] => [key, cat(parts.map((part) => part.tensor(key)))]),
      [...first.nonTensorBatch.keys()].map((key): [string, readonly unknown[]] => [
        key,
        parts.flatMap((part) => part.column(key)),
      ]),
      meta,
    );
  }

  /** New row order, in place. */
  reorder(indices: readonly number[]): this {
    if ([...indices].sort((a, b) => a - b).some((row, k) => row !== k) || indices.length !== this.length)
      throw new DataProtoError(`reorder wants each of ${this.length} rows once`);
    const ordered = this.selectIdxs(indices);
    for (const [key, value] of ordered.batch) {
      this.batch.get(key)!.dispose();
      this.batch.set(key, value);
    }
    for (const [key, value] of ordered.nonTensorBatch) this.nonTensorBatch.set(key, value);
    return this;
  }

  /** Each row several times: aabb when interleaved, abab otherwise. */
  repeat(times: number, interleave = true): DataProto {
    const rows = Array.from({ length: this.length * times }, (_, k) =>
      interleave ? Math.floor(k / times) : k % this.length,
    );
    return this.selectIdxs(rows);
  }

  /** Row k `times[k]` times. */
  sampleLevelRepeat(times: readonly number[]): DataProto {
    if (times.length !== this.length) throw new DataProtoError(`${times.length} counts for ${this.length} rows`);
    return this.selectIdxs(times.flatMap((count, row) => new Array<number>(count).fill(row)));
  }

  /** `size` more rows, each a copy of the last (or first) one. */
  padding(size: number, candidate: 'first' | 'last' = 'last'): DataProto {
    const row = candidate === 'last' ? this.length - 1 : 0;
    return this.selectIdxs([...Array.from({ length: this.length }, (_, k) => k), ...new Array<number>(size).fill(row)]);
  }

  /**
   * Mini-batches of `size` rows for `epochs` passes; with a seed every pass has an order of its own, the same in every run.
   * Each is the caller's to dispose.
   */
  *miniBatches(size: number, options: { epochs?: number; seed?: number } = {}): Generator<DataProto, void> {
    const { epochs = 1, seed } = options;
    if (!(size > 0) || this.length % size !== 0)
      throw new DataProtoError(`${this.length} rows do not divide into mini-batches of ${size}`);
    for (let epoch = 0; epoch < epochs; epoch++) {
      const rows = shuffledRows(this.length, seed === undefined ? undefined : seed + epoch);
      for (let start = 0; start < rows.length; start += size) yield this.selectIdxs(rows.slice(start, start + size));
    }
  }

  /** Rows regrouped: [rows, ...] becomes [groups, rows / groups, ...], columns become arrays of arrays. Shares memory. */
  foldBatchDim(groups: number): DataProto {
    const length = this.length;
    if (!(groups > 0) || length % groups !== 0)
      throw new DataProtoError(`${length} rows do not fold into ${groups} groups`);
    const size = length / groups;
    return this.mapRows(
      (value) => value.reshape(groups, size, ...value.shape.slice(1)),
      (value) => Array.from({ length: groups }, (_, k) => value.slice(k * size, (k + 1) * size)),
    );
  }

  /** The inverse of `foldBatchDim`: the first two dimensions become rows again. */
  unfoldBatchDim(): DataProto {
    for (const [key, value] of this.batch)
      if (value.ndim < 2) throw new DataProtoError(`unfold: tensor '${key}' has one dimension only`);
    return this.mapRows(
      (value) => value.flatten(0, 1),
      (value) =>
        value.flatMap((group) => {
          if (!Array.isArray(group)) throw new DataProtoError('unfold: a column does not hold one array per row');
          return group as unknown[];
        }),
    );
  }

  /** Each row becomes `count` rows: the columns of `splitKeys` are cut into so many pieces, everything else is repeated. */
  unfoldColumnChunks(count: number, splitKeys: readonly string[]): DataProto {
    for (const key of splitKeys)
      if (this.batch.has(key) && (this.tensor(key).ndim < 2 || this.tensor(key).size(1) % count !== 0))
        throw new DataProtoError(`tensor '${key}' does not divide into ${count} pieces along its second dimension`);
      else if (!this.has(key)) throw new DataProtoError(`the batch has no '${key}' to split`);
    const repeated = this.repeat(count, true);
    for (const key of splitKeys) {
      const value = this.batch.get(key);
      if (value) {
        const [rows = 0, width = 0, ...rest] = value.shape;
        repeated.set(
          key,
          scope(() => value.reshape(rows * count, width / count, ...rest).clone()),
        );
      } else
        repeated.setColumn(
          key,
          this.column<readonly unknown[]>(key).flatMap((entries) => {
            const size = entries.length / count;
            if (!Number.isInteger(size)) throw new DataProtoError(`'${key}' does not divide into ${count} pieces`);
            return Array.from({ length: count }, (_, k) => entries.slice(k * size, (k + 1) * size));
          }),
        );
    }
    return repeated;
  }

  /** Bytes of the tensors, and a line that says so. */
  get nbytes(): number {
    let bytes = 0;
    for (const value of this.batch.values()) bytes += value.nbytes;
    return bytes;
  }

  printSize(prefix = 'DataProto'): string {
    const parts = [...this.batch].map(([key, value]) => `${key} ${value.dtype}[${value.shape.join(', ')}]`);
    return `${prefix}: ${this.length} rows, ${(this.nbytes / 2 ** 20).toFixed(2)} MiB; ${[...parts, ...this.nonTensorBatch.keys()].join('; ') || 'empty'}`;
  }

  to(device: string): this {
    for (const [key, value] of this.batch) {
      if (value.device === device) continue;
      this.batch.set(key, value.to(device).keep());
      value.dispose();
    }
    return this;
  }

  /** Frees the tensors. */
  dispose(): void {
    for (const value of this.batch.values()) value.dispose();
    this.batch.clear();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}

function keysOf(data: DataProto): string[] {
  return [...data.batch.keys(), ...data.nonTensorBatch.keys()];
}

function sameTensor(a: Tensor, b: Tensor): boolean {
  if (a.dtype !== b.dtype || a.shape.join() !== b.shape.join()) return false;
  return scope(() =>
    a.dtype.startsWith('float') || a.dtype === 'bfloat16'
      ? a.allclose(b, { rtol: 0, atol: 0, equalNan: true })
      : a.equal(b),
  );
}

function mergeMeta(metas: readonly MetaInfo[]): MetaInfo {
  const merged: MetaInfo = {};
  const metrics: Record<string, unknown[]> = {};
  for (const meta of metas)
    for (const [key, value] of Object.entries(meta)) {
      if (key === 'metrics') {
        for (const item of Array.isArray(value) ? value : [value])
          for (const [name, metric] of Object.entries(item as Record<string, unknown>))
            metrics[name] = [...(metrics[name] ?? []), ...(Array.isArray(metric) ? metric : [metric])];
      } else if (key in merged && !deepEqual(merged[key], value))
        throw new DataProtoError(`concat: meta info '${key}' differs between the parts`);
      else merged[key] = value;
    }
  if (metas.some((meta) => 'metrics' in meta)) merged.metrics = metrics;
  return merged;
}

/** Pads by cycling from row 0 until the number of rows divides; returns how many rows were added. */
export function padDataProtoToDivisor(data: DataProto, divisor: number): { padded: DataProto; padSize: number } {
  const length = data.length;
  if (length === 0) throw new DataProtoError('an empty batch cannot be padded');
  const padSize = (divisor - (length % divisor)) % divisor;
  const rows = Array.from({ length: length + padSize }, (_, k) => k % length);
  return { padded: padSize === 0 ? data.slice() : data.selectIdxs(rows), padSize };
}

export function unpadDataProto(data: DataProto, padSize: number): DataProto {
  return data.slice(0, data.length - padSize);
}
