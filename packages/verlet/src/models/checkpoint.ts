/** Models in and out of Hugging Face folders. */

import { existsSync } from 'node:fs';
import { copyFile, mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { type DType, type nn, noGrad, openSafetensors, saveSafetensors, scope } from '@verlet/torch';
import './families/index.js';
import { type ModelConfig, readModelConfig, UnsupportedModelError } from './config.js';
import { loraOf } from './lora.js';
import { CausalLM } from './transformer.js';

export interface LoadOptions {
  /** Instead of the `config.json` in the folder. */
  config?: ModelConfig;
  dtype?: DType;
  device?: string;
}

export async function readConfigFile(folder: string): Promise<ModelConfig> {
  const file = path.join(folder, 'config.json');
  let text: string;
  try {
    text = await readFile(file, 'utf8');
  } catch {
    throw new UnsupportedModelError(`${folder} is not a model folder: it has no config.json`);
  }
  let raw: Record<string, unknown>;
  try {
    raw = JSON.parse(text) as Record<string, unknown>;
  } catch (error) {
    throw new UnsupportedModelError(`${file} is not valid JSON: ${(error as Error).message}`);
  }
  const config = readModelConfig(raw);
  const generation = path.join(folder, 'generation_config.json');
  if (existsSync(generation)) {
    // Chat models often list their real end tokens only here.
    const eos = (JSON.parse(await readFile(generation, 'utf8')) as { eos_token_id?: number | number[] }).eos_token_id;
    if (eos !== undefined && eos !== null)
      config.eosTokenIds = [...new Set([...(Array.isArray(eos) ? eos : [eos]), ...config.eosTokenIds])];
  }
  return config;
}

/** Heads that a folder may bring along for a model that has another one, or shares the embedding's weight. */
const foreignHeads = new Set(['lm_head', 'score', 'v_head', 'classifier']);

/**
 * Copies a folder's weights into a module by name. All names, shapes and dtypes are checked before the first is copied, so a
 * folder that does not fit leaves the module as it was. `rename` maps our name to the file's, or null to leave a weight as it is.
 */
export function loadWeights(
  module: nn.Module,
  folder: string,
  renameEntry: (name: string) => string | null = (name) => name,
): void {
  using reader = openSafetensors(folder);
  noGrad(() =>
    scope(() => {
      const pairs = [...module.stateEntries()].map(([name, own]) => [name, renameEntry(name), own] as const);
      const heads = new Set(pairs.map(([name]) => name.split('.')[0]!));
      const extra = new Set(
        reader
          .names()
          .filter((name) => !name.endsWith('rotary_emb.inv_freq'))
          .filter((name) => !(foreignHeads.has(name.split('.')[0]!) && !heads.has(name.split('.')[0]!))),
      );
      const missing: string[] = [];
      const wrong: string[] = [];
      for (const [name, stored, own] of pairs) {
        extra.delete(stored ?? name);
        if (stored === null) continue;
        if (!reader.has(stored)) missing.push(stored);
        else if (reader.info(stored).shape.join() !== own.shape.join())
          wrong.push(
            `'${stored}' has shape [${reader.info(stored).shape.join(', ')}], config.json asks for [${own.shape.join(', ')}]`,
          );
        else if (reader.info(stored).dtype === null)
          wrong.push(
            `'${stored}' is ${reader.info(stored).stored}, which must be turned into bfloat16 or float32 first`,
          );
      }
      const problems = [
        ...wrong.slice(0, 4),
        missing.length ? `weights are missing: ${listed(missing)}` : '',
        extra.size ? `weights that the model has no place for: ${listed([...extra])}` : '',
      ].filter(Boolean);
      if (problems.length) throw new UnsupportedModelError(`${folder}: ${problems.join('; ')}`);
      for (const [, stored, own] of pairs) if (stored !== null) own.copy_(reader.tensor(stored));
    }),
  );
}

function listed(names: readonly string[]): string {
  return `${names.slice(0, 8).join(', ')}${names.length > 8 ? ` and ${names.length - 8} more` : ''}`;
}

/** Loads a causal language model from a folder as downloaded from the hub. */
export async function loadCausalLM(folder: string, options: LoadOptions = {}): Promise<CausalLM> {
  const config = options.config ?? (await readConfigFile(folder));
  const model = new CausalLM(config, { dtype: options.dtype ?? 'float32', device: options.device ?? 'cpu' });
  return filled(model, () => loadWeights(model, folder));
}

/** The model once it has its weights; one that could not get them is freed. */
export function filled<Model extends nn.Module>(model: Model, fill: () => void): Model {
  try {
    fill();
  } catch (error) {
    model.dispose();
    throw error;
  }
  return model;
}

const tokenizerFiles = [
  'tokenizer.json',
  'tokenizer_config.json',
  'special_tokens_map.json',
  'chat_template.jinja',
  'vocab.json',
  'merges.txt',
  'added_tokens.json',
  'generation_config.json',
];

const dtypeNames: Partial<Record<DType, string>> = { float32: 'float32', bfloat16: 'bfloat16', float16: 'float16' };

async function writeAtomically(file: string, text: string): Promise<void> {
  const temporary = `${file}.tmp-${process.pid}`;
  await writeFile(temporary, text);
  await rename(temporary, file);
}

/** Writes a folder that `transformers` loads as it is (an adapter that is switched on is merged into what is written); tokenizer files are taken along from `source` when given. */
export async function saveCausalLM(
  model: CausalLM,
  folder: string,
  options: { source?: string; maxShardBytes?: number } = {},
): Promise<void> {
  await mkdir(folder, { recursive: true });
  const dtype = dtypeNames[model.dtype] ?? 'float32';
  const raw = { ...model.config.raw, torch_dtype: dtype, ...('dtype' in model.config.raw ? { dtype } : {}) };
  scope(() =>
    saveSafetensors(
      path.join(folder, 'model.safetensors'),
      loraOf(model)?.mergedEntries(model) ?? model.stateEntries(),
      { metadata: { format: 'pt' }, maxShardBytes: options.maxShardBytes ?? 5e9 },
    ),
  );
  await writeAtomically(path.join(folder, 'config.json'), `${JSON.stringify(raw, null, 2)}\n`);
  if (options.source) await copyTokenizerFiles(options.source, folder);
}

export async function copyTokenizerFiles(source: string, folder: string): Promise<void> {
  if (path.resolve(source) === path.resolve(folder)) return;
  for (const name of tokenizerFiles) {
    const from = path.join(source, name);
    if (existsSync(from)) await copyFile(from, path.join(folder, name));
  }
}

/** A model with random weights from a `config.json`-shaped object, for demos, tests and critics. */
export function createCausalLM(raw: Record<string, unknown>, options: LoadOptions = {}): CausalLM {
  return new CausalLM(readModelConfig(raw), { dtype: options.dtype ?? 'float32', device: options.device ?? 'cpu' });
}
