/**
 * The head of a safetensors file: eight bytes of length, then JSON that says where each tensor lies. Files come from anywhere,
 * so everything is checked before a byte of data is looked at.
 */
import type { DType } from '../dtype.js';
import { findRepeatedKey } from './repeated-keys.js';

/** The format's own limit; a longer header is a broken or hostile file. */
export const maxHeaderBytes = 100_000_000;

const elementBytes = {
  F64: 8,
  F32: 4,
  F16: 2,
  BF16: 2,
  I64: 8,
  I32: 4,
  I16: 2,
  I8: 1,
  U64: 8,
  U32: 4,
  U16: 2,
  U8: 1,
  BOOL: 1,
  F8_E4M3: 1,
  F8_E5M2: 1,
  C64: 8,
} as const;

export type SafetensorsDType = keyof typeof elementBytes;

const dtypes: Partial<Record<SafetensorsDType, DType>> = {
  F64: 'float64',
  F32: 'float32',
  F16: 'float16',
  BF16: 'bfloat16',
  I64: 'int64',
  I32: 'int32',
  I16: 'int16',
  I8: 'int8',
  U8: 'uint8',
  BOOL: 'bool',
};

const names = new Map(Object.entries(dtypes).map(([name, dtype]) => [dtype, name as SafetensorsDType]));

export function safetensorsName(dtype: DType): SafetensorsDType {
  return names.get(dtype)!;
}

export interface TensorInfo {
  /** The dtype as the file writes it. */
  stored: SafetensorsDType;
  /** The dtype of the tensor, or null for one that this package has no tensors of. */
  dtype: DType | null;
  shape: number[];
  bytes: number;
  /** First byte of the data, counted from the start of the file. */
  offset: number;
  file: string;
}

export interface Header {
  tensors: Map<string, TensorInfo>;
  metadata: Record<string, string>;
}

/** A file that cannot be read as safetensors, or one that lies about its content. */
export class SafetensorsError extends Error {
  override readonly name = 'SafetensorsError';
  constructor(
    readonly path: string,
    problem: string,
    options?: ErrorOptions,
  ) {
    super(`${path}: ${problem}`, options);
  }
}

/** Checks the first eight bytes against the size of the file and gives the length of the JSON behind them. */
export function headerLength(path: string, firstEight: Uint8Array, fileBytes: number): number {
  if (fileBytes < 8)
    throw new SafetensorsError(path, `not a safetensors file: ${fileBytes} bytes, shorter than its header`);
  const view = new DataView(firstEight.buffer, firstEight.byteOffset, 8);
  const length = view.getBigUint64(0, true);
  if (length > BigInt(maxHeaderBytes))
    throw new SafetensorsError(
      path,
      `announces a header of ${length} bytes; the format allows ${maxHeaderBytes}. Is it a safetensors file?`,
    );
  if (Number(length) > fileBytes - 8)
    throw new SafetensorsError(
      path,
      `announces a header of ${length} bytes, but the file has ${fileBytes} in all: it is cut off`,
    );
  return Number(length);
}

/** Reads and checks the JSON. `dataBytes` is what the file holds behind it. */
export function parseHeader(path: string, bytes: Uint8Array, dataBytes: number): Header {
  const fail = (problem: string, cause?: unknown): never => {
    throw new SafetensorsError(path, problem, { cause });
  };
  let text = '';
  let parsed: unknown;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    parsed = JSON.parse(text);
  } catch (error) {
    fail(`its header is not JSON in UTF-8 (${error instanceof Error ? error.message : error})`, error);
  }
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed))
    return fail('its header is not a JSON object');
  // JSON.parse takes the last of two equal keys in silence; other readers may take the first.
  const repeated = findRepeatedKey(text);
  if (repeated !== null) fail(`its header names '${repeated}' twice`);

  const dataStart = 8 + bytes.length;
  const tensors = new Map<string, TensorInfo>();
  let metadata: Record<string, string> = {};
  for (const [name, entry] of Object.entries(parsed)) {
    if (name === '__metadata__') metadata = parseMetadata(entry, fail);
    else tensors.set(name, parseEntry(path, name, entry, dataStart, dataBytes, fail));
  }
  checkCoverage(tensors, dataStart, dataBytes, fail);
  return { tensors, metadata };
}

type Fail = (problem: string) => never;

function parseMetadata(entry: unknown, fail: Fail): Record<string, string> {
  if (typeof entry !== 'object' || entry === null || Array.isArray(entry)) return fail('__metadata__ is not an object');
  const metadata: Record<string, string> = Object.create(null);
  for (const [key, value] of Object.entries(entry)) {
    if (typeof value !== 'string') return fail(`__metadata__.${key} is not a string`);
    metadata[key] = value;
  }
  return metadata;
}

function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;
}

function parseEntry(
  path: string,
  name: string,
  entry: unknown,
  dataStart: number,
  dataBytes: number,
  fail: Fail,
): TensorInfo {
  if (typeof entry !== 'object' || entry === null) return fail(`tensor '${name}' is not described by an object`);
  const { dtype, shape, data_offsets: offsets } = entry as Record<string, unknown>;
  if (typeof dtype !== 'string' || !Object.hasOwn(elementBytes, dtype))
    return fail(
      `tensor '${name}' has the unknown dtype ${JSON.stringify(dtype)}; known: ${Object.keys(elementBytes).join(', ')}`,
    );
  if (!Array.isArray(shape) || !shape.every(isCount))
    return fail(`tensor '${name}' has no usable shape: ${JSON.stringify(shape)}`);
  if (shape.length > 64) return fail(`tensor '${name}' has ${shape.length} dimensions`);
  if (!Array.isArray(offsets) || offsets.length !== 2 || !offsets.every(isCount))
    return fail(`tensor '${name}' has no usable data_offsets: ${JSON.stringify(offsets)}`);
  const [begin, end] = offsets as [number, number];
  if (begin > end || end > dataBytes)
    return fail(
      `tensor '${name}' claims bytes ${begin} to ${end}, but the file holds ${dataBytes} bytes of data: it is cut off or lies`,
    );
  const stored = dtype as SafetensorsDType;
  const bytes = (shape as number[]).reduce((product, size) => product * size, elementBytes[stored]);
  if (bytes !== end - begin)
    return fail(
      `tensor '${name}' of ${dtype} [${shape.join(', ')}] needs ${bytes} bytes, its data_offsets give it ${end - begin}`,
    );
  return {
    stored,
    dtype: dtypes[stored] ?? null,
    shape: shape as number[],
    bytes,
    offset: dataStart + begin,
    file: path,
  };
}

/** Tensors must lie side by side: no overlap, no gap, nothing behind the last one. */
function checkCoverage(tensors: Map<string, TensorInfo>, dataStart: number, dataBytes: number, fail: Fail): void {
  const ordered = [...tensors].sort(([, a], [, b]) => a.offset - b.offset || a.bytes - b.bytes);
  let at = dataStart;
  let before = 'the header';
  for (const [name, info] of ordered) {
    if (info.offset < at) fail(`tensors '${before}' and '${name}' overlap by ${at - info.offset} bytes`);
    if (info.offset > at) fail(`there is a gap of ${info.offset - at} bytes between ${before} and tensor '${name}'`);
    at = info.offset + info.bytes;
    before = name;
  }
  const end = dataStart + dataBytes;
  if (at !== end) fail(`${end - at} bytes behind the last tensor belong to none`);
}
