/** Reading: the headers at once, the data only when a tensor is asked for, by mapping the file instead of copying it. */
import { closeSync, existsSync, fstatSync, openSync, readdirSync, readFileSync, readSync, statSync } from 'node:fs';
import path from 'node:path';
import { dtypeCode } from '../dtype.js';
import { native } from '../native.js';
import { Tensor } from '../tensor.js';
import { type Header, headerLength, parseHeader, SafetensorsError, type TensorInfo } from './header.js';

export const indexSuffix = '.index.json';

export interface SafetensorsReader {
  /** Names of all tensors, in the order of the files. */
  names(): string[];
  has(name: string): boolean;
  info(name: string): TensorInfo;
  /**
   * A tensor on the CPU that views the mapped file: nothing is read before it is touched, and writing to it changes private
   * pages, never the file. It stays valid after `close()`. The file must not be shortened while tensors of it live.
   */
  tensor(name: string): Tensor;
  /** What the writer left under `__metadata__`; of a sharded model, that of the first shard that has any. */
  readonly metadata: Readonly<Record<string, string>>;
  readonly files: readonly string[];
  close(): void;
  [Symbol.dispose](): void;
}

/**
 * Opens a `.safetensors` file, a `.safetensors.index.json`, or a folder that holds a model in one of these forms.
 *
 * @example
 * using file = openSafetensors('Qwen2.5-0.5B');
 * for (const name of file.names()) console.log(name, file.info(name).shape);
 */
export function openSafetensors(location: string): SafetensorsReader {
  const chosen = choose(location);
  return chosen.endsWith(indexSuffix) ? openSharded(chosen) : new Reader(chosen, [chosen]);
}

function choose(location: string): string {
  if (!existsSync(location)) throw new SafetensorsError(location, 'no such file or folder');
  if (!statSync(location).isDirectory()) return location;
  for (const name of ['model.safetensors', `model.safetensors${indexSuffix}`]) {
    if (existsSync(path.join(location, name))) return path.join(location, name);
  }
  const entries = readdirSync(location);
  const indexes = entries.filter((name) => name.endsWith(`.safetensors${indexSuffix}`));
  const files = entries.filter((name) => name.endsWith('.safetensors'));
  if (indexes.length === 1) return path.join(location, indexes[0]!);
  if (files.length === 1) return path.join(location, files[0]!);
  if (files.length === 0) throw new SafetensorsError(location, 'the folder has no .safetensors file');
  throw new SafetensorsError(
    location,
    `the folder has ${files.length} .safetensors files and no index; name one of: ${files.join(', ')}`,
  );
}

function openSharded(indexPath: string): SafetensorsReader {
  let weightMap: unknown;
  try {
    weightMap = (JSON.parse(readFileSync(indexPath, 'utf8')) as { weight_map?: unknown }).weight_map;
  } catch (error) {
    throw new SafetensorsError(indexPath, `is not JSON (${error instanceof Error ? error.message : error})`, {
      cause: error,
    });
  }
  if (typeof weightMap !== 'object' || weightMap === null || Array.isArray(weightMap))
    throw new SafetensorsError(indexPath, 'has no weight_map');
  const shards = new Set<string>();
  for (const [name, file] of Object.entries(weightMap)) {
    // An index must not reach outside of its own folder.
    if (typeof file !== 'string' || file !== path.basename(file) || file === '' || file === '..')
      throw new SafetensorsError(
        indexPath,
        `places tensor '${name}' in ${JSON.stringify(file)}, which is not a plain file name`,
      );
    shards.add(file);
  }
  const folder = path.dirname(indexPath);
  const files = [...shards].sort().map((file) => path.join(folder, file));
  for (const file of files) {
    if (!existsSync(file))
      throw new SafetensorsError(indexPath, `names the shard ${path.basename(file)}, which is not there`);
  }
  const reader = new Reader(indexPath, files);
  for (const [name, file] of Object.entries(weightMap as Record<string, string>)) {
    if (!reader.has(name) || path.basename(reader.info(name).file) !== file) {
      reader.close();
      throw new SafetensorsError(indexPath, `places tensor '${name}' in ${file}, which does not hold it`);
    }
  }
  return reader;
}

function readHeader(file: string): Header {
  let descriptor: number;
  try {
    descriptor = openSync(file, 'r');
  } catch (error) {
    throw new SafetensorsError(file, `cannot be opened (${error instanceof Error ? error.message : error})`, {
      cause: error,
    });
  }
  try {
    const size = fstatSync(descriptor).size;
    const firstEight = new Uint8Array(8);
    readSync(descriptor, firstEight, 0, 8, 0);
    const length = headerLength(file, firstEight, size);
    const header = new Uint8Array(length);
    for (let at = 0; at < length; ) {
      const got = readSync(descriptor, header, at, length - at, 8 + at);
      if (got === 0) throw new SafetensorsError(file, 'ended while its header was read');
      at += got;
    }
    return parseHeader(file, header, size - 8 - length);
  } finally {
    closeSync(descriptor);
  }
}

class Reader implements SafetensorsReader {
  readonly metadata: Readonly<Record<string, string>>;
  private readonly tensors = new Map<string, TensorInfo>();
  private readonly mappings = new Map<string, unknown>();
  private closed = false;

  constructor(
    private readonly location: string,
    readonly files: readonly string[],
  ) {
    let metadata: Record<string, string> = {};
    for (const file of files) {
      const header = readHeader(file);
      if (Object.keys(metadata).length === 0) metadata = header.metadata;
      for (const [name, info] of header.tensors) {
        const other = this.tensors.get(name);
        if (other) throw new SafetensorsError(location, `tensor '${name}' stands in ${other.file} and in ${info.file}`);
        this.tensors.set(name, info);
      }
    }
    this.metadata = metadata;
  }

  names(): string[] {
    return [...this.tensors.keys()];
  }

  has(name: string): boolean {
    return this.tensors.has(name);
  }

  info(name: string): TensorInfo {
    const info = this.tensors.get(name);
    if (!info) throw new SafetensorsError(this.location, `has no tensor '${name}'${this.nearby(name)}`);
    return info;
  }

  tensor(name: string): Tensor {
    const info = this.info(name);
    if (this.closed) throw new SafetensorsError(this.location, `was closed before tensor '${name}' was asked for`);
    if (!info.dtype)
      throw new SafetensorsError(info.file, `tensor '${name}' is ${info.stored}, which has no tensors here`);
    return new Tensor(native.mappedTensor(this.mapping(info.file), info.offset, info.shape, dtypeCode(info.dtype)));
  }

  close(): void {
    this.closed = true;
    this.mappings.clear();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  private mapping(file: string): unknown {
    let mapping = this.mappings.get(file);
    if (!mapping) {
      mapping = native.mapFile(file);
      this.mappings.set(file, mapping);
    }
    return mapping;
  }

  private nearby(name: string): string {
    const last = name.split('.').slice(-2).join('.');
    const alike = this.names().filter((candidate) => candidate.endsWith(last));
    return alike.length > 0 ? `; it has ${alike.slice(0, 3).join(', ')}` : ` among its ${this.tensors.size}`;
  }
}
