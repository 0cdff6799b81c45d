/** Adapters in and out of PEFT's folder format: `adapter_config.json` and `adapter_model.safetensors`. */
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { type nn, noGrad, openSafetensors, saveSafetensors, type Tensor } from '@verlet/torch';
import { UnsupportedModelError } from './config.js';
import { adapterScale, attach, type Lora, type LoraConfig, linearPlaces, loraOf } from './lora.js';

const prefix = 'base_model.model.';
const configFile = 'adapter_config.json';
const weightsFile = 'adapter_model.safetensors';

interface PeftConfig {
  peft_type?: string;
  r: number;
  lora_alpha: number;
  use_rslora?: boolean;
  use_dora?: boolean;
  bias?: string;
  modules_to_save?: string[] | null;
  target_modules?: string | string[] | null;
  exclude_modules?: string | string[] | null;
  alpha_pattern?: Record<string, number>;
}

/** Writes a folder that `PeftModel.from_pretrained` loads. `baseModel` is the name or path of what the adapter goes onto. */
export async function saveAdapter(model: nn.Module, folder: string, options: { baseModel?: string } = {}) {
  const lora = loraOf(model);
  if (!lora) throw new Error('the model has no adapter to save');
  await mkdir(folder, { recursive: true });
  const entries: [string, Tensor][] = [];
  for (const [at, adapter] of lora.adapters())
    entries.push(
      [`${prefix}${at}.lora_A.weight`, adapter.lora_A.detach()],
      [`${prefix}${at}.lora_B.weight`, adapter.lora_B.detach()],
    );
  const head = [...model.stateEntries()].find(([name]) => name === 'score.weight');
  if (head) entries.push([`${prefix}score.weight`, head[1]]);
  saveSafetensors(path.join(folder, weightsFile), entries, { metadata: { format: 'pt' } });
  for (const [, tensor] of entries) tensor.dispose();
  const { rank, alpha, rslora, targetModules, excludeModules } = lora.config;
  const config = {
    peft_type: 'LORA',
    task_type: head ? 'TOKEN_CLS' : 'CAUSAL_LM',
    base_model_name_or_path: options.baseModel ?? null,
    r: rank,
    lora_alpha: alpha,
    use_rslora: rslora,
    target_modules: targetModules,
    exclude_modules: excludeModules,
    lora_dropout: 0,
    bias: 'none',
    fan_in_fan_out: false,
    inference_mode: true,
    init_lora_weights: true,
    modules_to_save: head ? ['score'] : null,
    rank_pattern: {},
    alpha_pattern: {},
    use_dora: false,
  };
  const temporary = path.join(folder, `${configFile}.tmp-${process.pid}`);
  await writeFile(temporary, `${JSON.stringify(config, null, 2)}\n`);
  await rename(temporary, path.join(folder, configFile));
}

async function readConfig(folder: string): Promise<PeftConfig> {
  const file = path.join(folder, configFile);
  let config: PeftConfig;
  try {
    config = JSON.parse(await readFile(file, 'utf8')) as PeftConfig;
  } catch (error) {
    throw new UnsupportedModelError(`${folder} is not an adapter folder: ${(error as Error).message}`);
  }
  const refuse = (what: string): never => {
    throw new UnsupportedModelError(`${file}: ${what} is not supported; plain LoRA adapters are`);
  };
  if (config.peft_type !== undefined && config.peft_type !== 'LORA') refuse(`peft_type ${config.peft_type}`);
  if (config.use_dora) refuse('DoRA');
  if (config.bias && config.bias !== 'none') refuse(`bias '${config.bias}'`);
  const saved = (config.modules_to_save ?? []).filter((name) => name !== 'score' && name !== 'classifier');
  if (saved.length) refuse(`modules_to_save ${saved.join(', ')}`);
  if (typeof config.r !== 'number' || typeof config.lora_alpha !== 'number')
    refuse('a config without r and lora_alpha');
  return config;
}

function alphaOf(config: PeftConfig, at: string): number {
  for (const [pattern, alpha] of Object.entries(config.alpha_pattern ?? {}))
    if (new RegExp(`(^|.*\\.)(${pattern})$`).test(at)) return alpha;
  return config.lora_alpha;
}

/**
 * Loads an adapter folder made by PEFT or by `saveAdapter`. On a model that already carries an adapter of the same shape the
 * weights are copied into it, so that an optimizer that holds its parameters goes on with them.
 */
export async function loadAdapter(model: nn.Module, folder: string): Promise<Lora> {
  const config = await readConfig(folder);
  using reader = openSafetensors(path.join(folder, weightsFile));
  const stored = new Set(reader.names());
  const shapes = new Map<string, number>();
  const wrong: string[] = [];
  const take = (name: string, expected: readonly number[]): void => {
    stored.delete(name);
    const shape = reader.has(name) ? reader.info(name).shape : null;
    if (shape?.join() !== expected.join())
      wrong.push(
        `'${name}' is ${shape ? `[${shape.join(', ')}]` : 'missing'}, the model asks for [${expected.join(', ')}]`,
      );
  };
  const places = [...linearPlaces(model)].filter(({ path: at, linear, part }) => {
    const name = `${prefix}${at}.lora_A.weight`;
    if (!reader.has(name)) return false;
    const rank = reader.info(name).shape[0] ?? 0;
    take(name, [rank, linear.inFeatures]);
    take(`${prefix}${at}.lora_B.weight`, [linear.parts[part]!.outFeatures, rank]);
    shapes.set(at, rank);
    return true;
  });
  const head = [...model.stateEntries()].find(([name]) => name === 'score.weight')?.[1];
  if (head && stored.has(`${prefix}score.weight`)) take(`${prefix}score.weight`, head.shape);
  if (stored.size) wrong.push(`the model has no module for ${[...stored].slice(0, 4).join(', ')}`);
  if (places.length === 0) wrong.push('there is no lora_A weight in it');
  if (wrong.length)
    throw new UnsupportedModelError(`${folder}: the adapter does not fit: ${wrong.slice(0, 6).join('; ')}`);

  const scaleOf = (at: string): number =>
    adapterScale(shapes.get(at)!, alphaOf(config, at), config.use_rslora ?? false);
  const lora =
    loraOf(model) ??
    attach(
      model,
      loraConfig(config),
      places.map((place) => ({
        ...place,
        rank: shapes.get(place.path)!,
        scale: scaleOf(place.path),
      })),
    );
  const own = new Map(lora.adapters());
  for (const at of new Set([...own.keys(), ...shapes.keys()])) {
    const adapter = own.get(at);
    if (!adapter || adapter.rank !== shapes.get(at) || Math.abs(adapter.scale - scaleOf(at)) > 1e-9)
      throw new UnsupportedModelError(
        `${folder}: the model carries another adapter: '${at}' has rank ${adapter?.rank ?? 'none'}, the folder ${shapes.get(at) ?? 'none'}`,
      );
  }
  noGrad(() => {
    const copy = (to: Tensor, name: string): void => {
      const given = reader.tensor(`${prefix}${name}`);
      to.copy_(given);
      given.dispose();
    };
    for (const [at, adapter] of own) {
      copy(adapter.lora_A, `${at}.lora_A.weight`);
      copy(adapter.lora_B, `${at}.lora_B.weight`);
    }
    if (head && reader.has(`${prefix}score.weight`)) copy(head, 'score.weight');
  });
  return lora;
}

function loraConfig(config: PeftConfig): LoraConfig {
  return {
    rank: config.r,
    alpha: config.lora_alpha,
    rslora: config.use_rslora ?? false,
    targetModules: config.target_modules ?? [],
    excludeModules: config.exclude_modules ?? null,
  };
}
