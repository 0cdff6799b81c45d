/** The model that a fine-tuning run starts from, with its tokenizer, its adapter, and the folders it is saved to. */
import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { type AdamW, type DType, manualSeed, type nn } from '@verlet/torch';
import { expandHome, type SftConfig, UserError } from '../../config/index.js';
import { loadWeights, readConfigFile, saveCausalLM } from '../../models/checkpoint.js';
import { type ModelConfig, readModelConfig, UnsupportedModelError } from '../../models/config.js';
import { resolveModel } from '../../models/hub/index.js';
import { applyLora, loraOf } from '../../models/lora.js';
import { loadAdapter, saveAdapter } from '../../models/lora-files.js';
import { Tokenizer } from '../../models/tokenizer/index.js';
import { CausalLM } from '../../models/transformer.js';
import { pickDevice } from '../../workers/actor-rollout-ref.js';

export interface ModelSource {
  /** The folder with the weights. */
  folder: string;
  tokenizer: Tokenizer;
  tokenizerFolder: string;
  /** Instead of the tokenizer's own template. */
  chatTemplate: string | undefined;
}

/** Finds model and tokenizer; nothing large is read yet, so that mistakes in the data are found first. */
export async function openModelSource(config: SftConfig): Promise<ModelSource> {
  const folder = await resolveModel(config.model.partial_pretrain);
  const tokenizerFolder = config.model.tokenizer_path ? await resolveModel(config.model.tokenizer_path) : folder;
  const template = config.model.custom_chat_template ?? config.data.chat_template;
  return {
    folder,
    tokenizerFolder,
    tokenizer: await Tokenizer.load(tokenizerFolder),
    chatTemplate: template ? await readTemplate(template) : undefined,
  };
}

/** A template is given as the name of a file or as its text. */
export async function readTemplate(template: string): Promise<string> {
  const file = expandHome(template);
  if (existsSync(file)) return readFile(file, 'utf8');
  if (/\{[{%]/.test(template)) return template;
  throw new UserError(`the chat template ${JSON.stringify(template)} is neither a file nor a Jinja text`, {
    exitCode: 2,
  });
}

const DTYPES: Record<string, DType> = { fp32: 'float32', bf16: 'bfloat16', fp16: 'float16' };

/** Device and precision. The CPU computes in float32. */
export function placementOf(config: SftConfig): { device: string; dtype: DType } {
  const device = pickDevice(config.trainer.device);
  const { dtype } = config.model.fsdp_config;
  return { device, dtype: device === 'cpu' ? 'float32' : (DTYPES[dtype] ?? (dtype as DType)) };
}

export async function configOf(folder: string, model: SftConfig['model']): Promise<ModelConfig> {
  const given = await readConfigFile(model.hf_config_path ? await resolveModel(model.hf_config_path) : folder);
  if (Object.keys(model.override_config).length === 0) return given;
  const changed = readModelConfig({ ...given.raw, ...model.override_config });
  return { ...changed, eosTokenIds: given.eosTokenIds };
}

/** The causal model with what is to be trained marked as such: all of it, or a new or given adapter. */
export async function loadTrainable(config: SftConfig, { folder }: ModelSource): Promise<CausalLM> {
  return asUserError(async () => {
    // Fresh adapters start from random numbers.
    manualSeed(config.trainer.seed);
    const model = new CausalLM(await configOf(folder, config.model), placementOf(config));
    loadWeights(model, folder);
    await adapt(model, config.model);
    return model;
  });
}

export async function adapt(model: nn.Module, config: SftConfig['model']): Promise<void> {
  if (config.lora_adapter_path) await loadAdapter(model, await resolveModel(config.lora_adapter_path));
  else if (config.lora_rank > 0)
    applyLora(model, {
      rank: config.lora_rank,
      alpha: config.lora_alpha,
      targetModules: config.target_modules,
      excludeModules: config.exclude_modules,
    });
}

/** A model that is not supported is the person's choice, not a defect. */
export async function asUserError<T>(body: () => Promise<T>): Promise<T> {
  try {
    return await body();
  } catch (error) {
    if (error instanceof UnsupportedModelError) throw new UserError(error.message, { cause: error });
    throw error;
  }
}

/** The parts of a checkpoint: a folder that transformers loads, the adapter by itself, the optimiser. */
export async function saveTrained(
  folder: string,
  model: CausalLM,
  optimizer: AdamW,
  source: ModelSource,
  baseModel: string,
): Promise<void> {
  const target = path.join(folder, 'huggingface');
  await saveCausalLM(model, target, { source: source.tokenizerFolder });
  if (source.chatTemplate !== undefined) await writeFile(path.join(target, 'chat_template.jinja'), source.chatTemplate);
  if (loraOf(model)) await saveAdapter(model, path.join(folder, 'lora_adapter'), { baseModel });
  optimizer.save(path.join(folder, 'optimizer.safetensors'));
}

export async function loadTrained(
  folder: string,
  model: CausalLM,
  optimizer: AdamW,
  contents: readonly string[],
): Promise<void> {
  // `huggingface` holds the base with the adapter merged in; the base itself never changed.
  if (loraOf(model)) await loadAdapter(model, path.join(folder, 'lora_adapter'));
  else loadWeights(model, path.join(folder, 'huggingface'));
  if (contents.includes('optimizer')) optimizer.load(path.join(folder, 'optimizer.safetensors'));
}
