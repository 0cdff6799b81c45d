/** The model that a fine-tuning run starts from, with its tokenizer, its adapter, and the folders it is saved to. */
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { type AdamW, type DType, manualSeed, type nn } from '@verlet/torch';
import { type SftConfig, UserError } from '../../config/index.js';
import { loadWeights, saveCausalLM } from '../../models/checkpoint.js';
import { UnsupportedModelError } from '../../models/config.js';
import { resolveModel } from '../../models/hub/index.js';
import { Tokenizer } from '../../models/tokenizer/index.js';
import { CausalLM } from '../../models/transformer.js';
import { pickDevice } from '../../workers/actor-rollout-ref.js';
import { adaptModel } from '../../workers/adapters.js';
import { type CheckpointParts, optimizerPart, weightParts } from '../../workers/checkpoint-parts.js';
import { configOf, readTemplate } from '../../workers/model-source.js';

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

const DTYPES: Record<string, DType> = { fp32: 'float32', bf16: 'bfloat16', fp16: 'float16' };

/** Device and precision. The CPU computes in float32. */
export function placementOf(config: SftConfig): { device: string; dtype: DType } {
  const device = pickDevice(config.trainer.device);
  const { dtype } = config.model.fsdp_config;
  return { device, dtype: device === 'cpu' ? 'float32' : (DTYPES[dtype] ?? (dtype as DType)) };
}

/** The causal model with what is to be trained marked as such: all of it, or a new or given adapter. */
export async function loadTrainable(config: SftConfig, { folder }: ModelSource): Promise<CausalLM> {
  return asUserError(async () => {
    // Fresh adapters start from random numbers.
    manualSeed(config.trainer.seed);
    const model = new CausalLM(await configOf(folder, config.model), placementOf(config));
    loadWeights(model, folder);
    await adaptModel(model, config.model);
    return model;
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

/** The parts of a checkpoint: a folder that transformers loads, the adapter by itself, the optimiser. The step is the schedule's place. */
export function trainedParts(
  model: nn.Module,
  optimizer: AdamW,
  baseModel: string,
  save: (folder: string) => Promise<void>,
): CheckpointParts {
  const huggingface = { name: 'huggingface', save };
  return { ...weightParts(model, baseModel, { whole: huggingface, huggingface }), optimizer: optimizerPart(optimizer) };
}

export async function saveTrained(folder: string, model: CausalLM, source: ModelSource): Promise<void> {
  await saveCausalLM(model, folder, { source: source.tokenizerFolder });
  await saveTemplate(folder, source);
}

export async function saveTemplate(folder: string, { chatTemplate }: ModelSource): Promise<void> {
  if (chatTemplate !== undefined) await writeFile(path.join(folder, 'chat_template.jinja'), chatTemplate);
}
