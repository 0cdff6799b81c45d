/** A trained model as a folder that transformers, vLLM and others load: adapter merged, cast, sharded. */
import { existsSync } from 'node:fs';
import { copyFile, mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import {
  type DType,
  type LazyTensor,
  noGrad,
  openSafetensors,
  saveSafetensors,
  scope,
  type Tensor,
} from '@verlet/torch';
import { UserError } from '../../config/index.js';
import { loadCausalLM } from '../../models/checkpoint.js';
import { loadAdapter } from '../../models/lora-files.js';
import { asUserError } from '../sft/model.js';
import { findModel } from './find-model.js';

export const EXPORT_DTYPES = ['float32', 'bfloat16', 'float16'] as const;
export type ExportDType = (typeof EXPORT_DTYPES)[number];

export interface ExportOptions {
  /** A run, a checkpoint, an adapter or a model folder; or a name on the hub. */
  source: string;
  target: string;
  /** Adapter to merge, in PEFT format. */
  adapter?: string;
  /** Model that an adapter was made for, where its folder does not say. */
  base?: string;
  /** Default: as it is. */
  dtype?: ExportDType;
  maxShardBytes?: number;
  /** Replace what stands at the target. */
  overwrite?: boolean;
}

export interface ExportResult {
  folder: string;
  tensors: number;
  bytes: number;
  files: string[];
  merged: boolean;
}

type Entry = [string, Tensor | LazyTensor];

export async function exportModel(options: ExportOptions): Promise<ExportResult> {
  const target = path.resolve(options.target);
  if (existsSync(target) && !options.overwrite && (await readdir(target)).length > 0)
    throw new UserError(`${target} is not empty; name another folder or give --overwrite`);
  const found = await findModel(options.source, options.base);
  const adapter = options.adapter ? path.resolve(options.adapter) : found.adapter;
  if (options.adapter && found.adapter)
    throw new UserError(`${options.source} is an adapter itself; give either that or --adapter`);
  if (found.folder === target) throw new UserError(`${target} is the source; name another folder`);

  const temporary = `${target}.tmp-${process.pid}`;
  await rm(temporary, { recursive: true, force: true });
  await mkdir(temporary, { recursive: true });
  try {
    const file = path.join(temporary, 'model.safetensors');
    const maxShardBytes = options.maxShardBytes ?? 5e9;
    const written = await asUserError(() =>
      adapter
        ? writeMerged(file, found.folder, adapter, options.dtype, maxShardBytes)
        : writeCast(file, found.folder, options.dtype, maxShardBytes),
    );
    await copyCompanions(found.folder, temporary, options.dtype);
    if (options.overwrite) await rm(target, { recursive: true, force: true });
    // An empty folder that is in the way is replaced by the rename.
    await rename(temporary, target);
    return { folder: target, files: (await readdir(target)).sort(), merged: adapter !== null, ...written };
  } catch (error) {
    await rm(temporary, { recursive: true, force: true });
    throw error;
  }
}

/** Tensor after tensor, from file to file: memory holds one at a time, whatever the architecture. */
async function writeCast(file: string, folder: string, dtype: DType | undefined, maxShardBytes: number) {
  using reader = openSafetensors(folder);
  const entries = reader.names().map((name): Entry => {
    const info = reader.info(name);
    if (info.dtype === null) throw new UserError(`${folder}: '${name}' has a type of numbers that cannot be read`);
    return [name, cast({ dtype: info.dtype, shape: info.shape, load: () => reader.tensor(name) }, dtype)];
  });
  return save(file, entries, maxShardBytes);
}

/** The sum of weight and adapter is taken in float32 and rounded once. */
async function writeMerged(
  file: string,
  folder: string,
  adapter: string,
  dtype: DType | undefined,
  maxShardBytes: number,
) {
  const model = await loadCausalLM(folder, { dtype: 'float32' });
  try {
    const lora = await loadAdapter(model, adapter);
    using reader = openSafetensors(folder);
    return scope(() => {
      const entries = [...lora.mergedEntries(model)].map(([name, value]): Entry => {
        const lazy = 'load' in value ? value : { dtype: value.dtype, shape: value.shape, load: () => value.clone() };
        return [name, cast(lazy, dtype ?? (reader.has(name) ? (reader.info(name).dtype ?? undefined) : undefined))];
      });
      return save(file, entries, maxShardBytes);
    });
  } finally {
    model.dispose();
  }
}

const isFloat = (dtype: DType): boolean => (EXPORT_DTYPES as readonly string[]).includes(dtype);

function cast(value: LazyTensor, dtype: DType | undefined): LazyTensor {
  if (dtype === undefined || dtype === value.dtype || !isFloat(value.dtype)) return value;
  return { dtype, shape: value.shape, load: () => noGrad(() => scope(() => value.load().to(dtype))) };
}

function save(file: string, entries: readonly Entry[], maxShardBytes: number): { tensors: number; bytes: number } {
  const { totalBytes } = saveSafetensors(file, entries, { metadata: { format: 'pt' }, maxShardBytes });
  return { tensors: entries.length, bytes: totalBytes };
}

/** Everything small beside the weights: tokenizer, templates, generation settings, licence. */
async function copyCompanions(source: string, target: string, dtype: DType | undefined): Promise<void> {
  for (const entry of await readdir(source, { withFileTypes: true })) {
    const { name } = entry;
    if (entry.isDirectory() || /\.(safetensors|bin|pt|pth|gguf|tmp|lock)$|\.safetensors\.index\.json$|^\./.test(name))
      continue;
    if (name !== 'config.json') await copyFile(path.join(source, name), path.join(target, name));
  }
  const file = path.join(source, 'config.json');
  let config: Record<string, unknown>;
  try {
    config = JSON.parse(await readFile(file, 'utf8')) as Record<string, unknown>;
  } catch (error) {
    throw new UserError(`${file} cannot be read: ${(error as Error).message}`);
  }
  if (dtype !== undefined) {
    config.torch_dtype = dtype;
    if ('dtype' in config) config.dtype = dtype;
  }
  await writeFile(path.join(target, 'config.json'), `${JSON.stringify(config, null, 2)}\n`);
}
