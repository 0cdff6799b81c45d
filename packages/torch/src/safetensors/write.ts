/**
 * Writing: tensors go to disk in pieces, so that nothing larger than a piece is ever copied, and a file appears under its name
 * only when all of it is on the disk. A crash at any moment leaves the old file or the new one.
 */
import { closeSync, existsSync, fsyncSync, openSync, readFileSync, renameSync, rmSync, writeSync } from 'node:fs';
import path from 'node:path';
import { noGrad } from '../autograd.js';
import { type DType, dtypeSize } from '../dtype.js';
import { native } from '../native.js';
import { scope } from '../scope.js';
import { Tensor } from '../tensor.js';
import { SafetensorsError, safetensorsName } from './header.js';
import { indexSuffix } from './read.js';

const pieceBytes = 64 * 1024 * 1024;

/** A tensor that is made only when its turn to be written comes, and freed after it: for weights gathered from shards. */
export interface LazyTensor {
  dtype: DType;
  shape: readonly number[];
  load(): Tensor;
}

export interface SaveOptions {
  metadata?: Readonly<Record<string, string>>;
  /** Above this, `name.safetensors` becomes `name-00001-of-0000N.safetensors` and so on, with an index beside them. */
  maxShardBytes?: number;
}

export interface SaveResult {
  files: string[];
  totalBytes: number;
}

interface Item {
  name: string;
  source: Tensor | LazyTensor;
  dtype: DType;
  shape: readonly number[];
  bytes: number;
}

/**
 * Saves tensors, on any device, to `file` (which ends in `.safetensors`); what stood there before is replaced.
 *
 * @example
 * saveSafetensors('out/model.safetensors', new Map([['weight', weight]]), { metadata: { format: 'pt' } });
 */
export function saveSafetensors(
  file: string,
  entries: Iterable<readonly [string, Tensor | LazyTensor]> | ReadonlyMap<string, Tensor | LazyTensor>,
  options: SaveOptions = {},
): SaveResult {
  if (!file.endsWith('.safetensors')) throw new SafetensorsError(file, 'a safetensors file is named *.safetensors');
  const items = collect(file, entries);
  const totalBytes = items.reduce((sum, item) => sum + item.bytes, 0);
  const shards = split(items, options.maxShardBytes ?? Number.POSITIVE_INFINITY);
  const stem = file.slice(0, -'.safetensors'.length);
  const number = (k: number) => String(k).padStart(5, '0');
  const targets = shards.map((_, k) =>
    shards.length === 1 ? file : `${stem}-${number(k + 1)}-of-${number(shards.length)}.safetensors`,
  );
  const metadata = { format: 'pt', ...options.metadata };

  const finished: [string, string][] = [];
  try {
    shards.forEach((shard, k) => {
      finished.push([temporaryName(targets[k]!), targets[k]!]);
      writeShard(finished.at(-1)![0], shard, metadata);
    });
    if (shards.length > 1) {
      const weightMap = Object.fromEntries(
        shards.flatMap((shard, k) => shard.map((item) => [item.name, path.basename(targets[k]!)])),
      );
      const index = `${JSON.stringify({ metadata: { total_size: totalBytes }, weight_map: weightMap }, null, 2)}\n`;
      finished.push([temporaryName(file + indexSuffix), file + indexSuffix]);
      writeWhole(finished.at(-1)![0], (write) => write(Buffer.from(index)));
    }
    const replaced = filesOfEarlierSave(file);
    for (const [temporary, target] of finished) renameSync(temporary, target);
    for (const stale of replaced) {
      if (!finished.some(([, target]) => target === stale)) rmSync(stale, { force: true });
    }
    syncFolder(path.dirname(file));
  } catch (error) {
    for (const [temporary] of finished) rmSync(temporary, { force: true });
    throw error;
  }
  return { files: finished.map(([, target]) => target), totalBytes };
}

function collect(file: string, entries: Iterable<readonly [string, Tensor | LazyTensor]>): Item[] {
  const items: Item[] = [];
  const seen = new Set<string>();
  for (const [name, source] of entries) {
    if (seen.has(name)) throw new SafetensorsError(file, `two tensors are named '${name}'`);
    if (name === '__metadata__') throw new SafetensorsError(file, `'__metadata__' cannot be the name of a tensor`);
    seen.add(name);
    const { dtype, shape } = source;
    items.push({ name, source, dtype, shape, bytes: shape.reduce((a, b) => a * b, dtypeSize[dtype]) });
  }
  return items;
}

function split(items: Item[], maxShardBytes: number): Item[][] {
  const shards: Item[][] = [[]];
  let size = 0;
  for (const item of items) {
    if (size > 0 && size + item.bytes > maxShardBytes) {
      shards.push([]);
      size = 0;
    }
    shards.at(-1)!.push(item);
    size += item.bytes;
  }
  return shards;
}

function writeShard(temporary: string, shard: Item[], metadata: Record<string, string>): void {
  // Wide elements first: then each tensor starts at a multiple of its element size and can be mapped.
  const items = [...shard].sort((a, b) => dtypeSize[b.dtype] - dtypeSize[a.dtype]);
  const header: Record<string, unknown> = Object.create(null);
  header.__metadata__ = metadata;
  let at = 0;
  for (const { name, dtype, shape, bytes } of items) {
    header[name] = { dtype: safetensorsName(dtype), shape, data_offsets: [at, at + bytes] };
    at += bytes;
  }
  const json = Buffer.from(JSON.stringify(header));
  const padded = Buffer.alloc(8 + Math.ceil(json.length / 8) * 8, ' ');
  padded.writeBigUInt64LE(BigInt(padded.length - 8));
  json.copy(padded, 8);
  writeWhole(temporary, (write) => {
    write(padded);
    for (const item of items) writeTensor(item, write);
  });
}

function writeTensor(item: Item, write: (bytes: Uint8Array) => void): void {
  if (item.bytes === 0) return;
  scope(() =>
    noGrad(() => {
      const tensor = item.source instanceof Tensor ? item.source : item.source.load();
      if (tensor.dtype !== item.dtype || tensor.shape.join() !== item.shape.join())
        throw new Error(
          `tensor '${item.name}' was announced as ${item.dtype} [${item.shape}], but is ${tensor.dtype} [${tensor.shape}]`,
        );
      const flat = tensor.detach().contiguous().reshape(-1);
      const elements = Math.floor(pieceBytes / dtypeSize[item.dtype]);
      const piece = new Uint8Array(Math.min(item.bytes, pieceBytes));
      const count = item.bytes / dtypeSize[item.dtype];
      for (let start = 0; start < count; start += elements) {
        scope(() => {
          const part = flat.narrow(0, start, Math.min(elements, count - start)).to('cpu');
          const bytes = piece.subarray(0, part.nbytes);
          native.copyBytes(part.handle, 0, bytes);
          write(bytes);
        });
      }
    }),
  );
}

function writeWhole(file: string, body: (write: (bytes: Uint8Array) => void) => void): void {
  const descriptor = openSync(file, 'wx');
  try {
    body((bytes) => {
      for (let at = 0; at < bytes.length; ) at += writeSync(descriptor, bytes, at, bytes.length - at);
    });
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

function temporaryName(target: string): string {
  return `${target}.${process.pid}.${Math.random().toString(36).slice(2, 10)}.part`;
}

/** One file and a sharded form of the same model must not stand side by side: a reader could take the old one. */
function filesOfEarlierSave(file: string): string[] {
  const index = file + indexSuffix;
  const files = [file];
  if (!existsSync(index)) return files;
  files.push(index);
  try {
    const { weight_map: weightMap } = JSON.parse(readFileSync(index, 'utf8')) as { weight_map: Record<string, string> };
    for (const shard of new Set(Object.values(weightMap))) {
      if (shard === path.basename(shard)) files.push(path.join(path.dirname(file), shard));
    }
  } catch {
    // An unreadable index names no shards to remove.
  }
  return files;
}

function syncFolder(folder: string): void {
  const descriptor = openSync(folder, 'r');
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}
