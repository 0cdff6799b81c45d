/** A batch as plain data and raw bytes, for other processes and for the disk. Tensors never become text. */
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { aten, type DType, empty, openSafetensors, saveSafetensors, scope, type Tensor, tensor } from '@verlet/torch';
import { DataProto, DataProtoError, type MetaInfo } from './data-proto.js';

export interface EncodedTensor {
  dtype: DType;
  shape: number[];
  bytes: Uint8Array;
}

/** Elements that JavaScript has an array for; the others travel as the bytes they are. */
const arrays = {
  float32: { type: Float32Array, read: (value: Tensor) => value.toFloat32Array() },
  float64: { type: Float64Array, read: (value: Tensor) => value.toFloat64Array() },
  int32: { type: Int32Array, read: (value: Tensor) => value.toInt32Array() },
  int64: { type: BigInt64Array, read: (value: Tensor) => value.toBigInt64Array() },
  uint8: { type: Uint8Array, read: (value: Tensor) => value.toUint8Array() },
} as const;
type ArrayDType = keyof typeof arrays;

/** A tensor's elements in row order; from another device it is copied first. */
export function encodeTensor(value: Tensor): EncodedTensor {
  const { dtype, shape } = value;
  if (value.numel === 0) return { dtype, shape, bytes: new Uint8Array(0) };
  const elements = scope(() => {
    if (dtype in arrays) return arrays[dtype as ArrayDType].read(value);
    const flat = value.detach().to('cpu').contiguous().reshape(-1);
    return aten.view_dtype(flat, 'uint8').toUint8Array();
  });
  return { dtype, shape, bytes: new Uint8Array(elements.buffer, elements.byteOffset, elements.byteLength) };
}

/** Copies the bytes. */
export function decodeTensor({ dtype, shape, bytes }: EncodedTensor): Tensor {
  if (bytes.length === 0) return empty(shape, { dtype });
  if (!(dtype in arrays))
    return scope(() => aten.view_dtype(tensor(bytes, { dtype: 'uint8' }), dtype).reshape(...shape));
  const { type } = arrays[dtype as ArrayDType];
  const aligned = bytes.byteOffset % type.BYTES_PER_ELEMENT === 0 ? bytes : bytes.slice();
  const elements = new type(
    aligned.buffer as ArrayBuffer,
    aligned.byteOffset,
    aligned.byteLength / type.BYTES_PER_ELEMENT,
  );
  return tensor(elements, { dtype, shape });
}

export interface EncodedDataProto {
  tensors: [string, EncodedTensor][];
  nonTensors: [string, readonly unknown[]][];
  metaInfo: MetaInfo;
}

export function encodeDataProto(data: DataProto): EncodedDataProto {
  return {
    tensors: [...data.batch].map(([key, value]) => [key, encodeTensor(value)]),
    nonTensors: [...data.nonTensorBatch],
    metaInfo: data.metaInfo,
  };
}

export function decodeDataProto(encoded: EncodedDataProto): DataProto {
  return new DataProto(
    encoded.tensors.map(([key, value]): [string, Tensor] => [key, decodeTensor(value)]),
    encoded.nonTensors,
    encoded.metaInfo,
  );
}

const tensorFile = 'batch.safetensors';
const objectFile = 'batch.json';

/** Writes a folder: `batch.safetensors`, and `batch.json` with columns and meta info, which must be plain JSON values. */
export function saveDataProto(data: DataProto, folder: string): void {
  const state = { version: 1, length: data.length, nonTensors: [...data.nonTensorBatch], metaInfo: data.metaInfo };
  const text = JSON.stringify(state, (key, value: unknown) => {
    if (typeof value === 'function' || typeof value === 'bigint' || ArrayBuffer.isView(value) || value instanceof Map)
      throw new DataProtoError(`'${key}' holds a ${(value as object).constructor.name}, which JSON cannot keep`);
    return value;
  });
  mkdirSync(folder, { recursive: true });
  saveSafetensors(path.join(folder, tensorFile), data.batch);
  const temporary = path.join(folder, `${objectFile}.${process.pid}.part`);
  writeFileSync(temporary, `${text}\n`);
  renameSync(temporary, path.join(folder, objectFile));
}

/** Reads what `saveDataProto` wrote; the tensors view the mapped file. */
export function loadDataProto(folder: string): DataProto {
  const file = path.join(folder, objectFile);
  let state: { version: number; nonTensors: [string, unknown[]][]; metaInfo: MetaInfo };
  try {
    state = JSON.parse(readFileSync(file, 'utf8')) as typeof state;
  } catch (error) {
    throw new DataProtoError(`${file} cannot be read (${(error as Error).message})`);
  }
  if (state.version !== 1)
    throw new DataProtoError(`${file} has version ${state.version}; this program reads version 1`);
  using reader = openSafetensors(path.join(folder, tensorFile));
  return new DataProto(
    reader.names().map((name): [string, Tensor] => [name, reader.tensor(name)]),
    state.nonTensors,
    state.metaInfo,
  );
}
