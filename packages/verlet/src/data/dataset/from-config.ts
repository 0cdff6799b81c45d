import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { UserError } from '../../config/errors.js';
import { importModule } from '../../config/import-module.js';
import type { Tokenizer, ToolSchema } from '../../models/tokenizer/index.js';
import { ConcatSource, DataLoader, type ItemSource, MixingSampler, type Sampler } from '../loader/index.js';
import { progressBar } from '../progress.js';
import { type DatasetReport, RlDataset, type RlDatasetOptions, type RlItem } from './rl-dataset.js';

/** The keys of verl's `data` group that are read here. */
export interface DataConfig {
  train_files: string | string[];
  val_files?: string | string[] | null;
  train_weights?: number[] | null;
  train_max_samples?: number;
  val_max_samples?: number;
  train_batch_size: number;
  gen_batch_size?: number | null;
  val_batch_size?: number | null;
  max_prompt_length?: number;
  prompt_key?: string;
  reward_fn_key?: string;
  answer_key?: string | null;
  image_key?: string;
  video_key?: string;
  audio_key?: string;
  format_prompt?: string | null;
  apply_chat_template_kwargs?: Record<string, unknown>;
  filter_overlong_prompts?: boolean;
  truncation?: RlDatasetOptions['truncation'];
  shuffle?: boolean;
  validation_shuffle?: boolean;
  seed?: number | null;
  return_raw_chat?: boolean;
  return_full_prompt?: boolean;
  /** A dataset class of one's own: a module and the name of its export. */
  custom_cls?: { path?: string | null; name?: string | null };
  sampler?: { class_path?: string | null; class_name?: string | null };
}

/** What a loader needs of a dataset; `RlDataset` is one. */
export interface PromptDataset extends ItemSource<RlItem> {
  readonly report?: DatasetReport;
  close(): Promise<void>;
}

/** What the export named by `data.custom_cls` has to offer. */
export interface PromptDatasetClass {
  open(files: string | readonly string[], tokenizer: Tokenizer, options: RlDatasetOptions): Promise<PromptDataset>;
}

/** What the export named by `data.sampler` is constructed with. */
export type SamplerClass = new (context: {
  datasets: readonly PromptDataset[];
  length: number;
  config: DataConfig;
}) => Sampler;

export interface OpenDatasetOptions {
  tokenizer: Tokenizer;
  tools?: readonly ToolSchema[];
  chatTemplate?: string;
  onProgress?: (done: number, total: number) => void;
}

/** The training or validation files as datasets: one, or one per file where they are mixed by weight. */
export async function openDatasets(
  config: DataConfig,
  split: 'train' | 'val',
  { tokenizer, tools, chatTemplate, onProgress = progressBar('measuring prompts') }: OpenDatasetOptions,
): Promise<PromptDataset[]> {
  const isTraining = split === 'train';
  const files = isTraining ? config.train_files : (config.val_files ?? []);
  const options: RlDatasetOptions = {
    promptKey: config.prompt_key,
    rewardFnKey: config.reward_fn_key,
    answerKey: config.answer_key,
    mediaKeys: [config.image_key ?? 'images', config.video_key ?? 'videos', config.audio_key ?? 'audios'],
    maxPromptLength: config.max_prompt_length,
    truncation: config.truncation,
    filterOverlongPrompts: config.filter_overlong_prompts,
    returnRawChat: config.return_raw_chat,
    returnFullPrompt: config.return_full_prompt,
    formatPrompt: config.format_prompt ? await readFormatPrompt(config.format_prompt) : null,
    applyChatTemplateKwargs: config.apply_chat_template_kwargs,
    maxSamples: isTraining ? config.train_max_samples : config.val_max_samples,
    shuffle: isTraining ? config.shuffle : config.validation_shuffle,
    seed: config.seed ?? 1,
    tools,
    chatTemplate,
    onProgress,
  };
  const groups = isTraining && config.train_weights ? [files].flat() : [files];
  const { custom_cls: custom } = config;
  const datasetClass = custom?.path
    ? await importExport<PromptDatasetClass>(custom.path, custom.name, 'data.custom_cls')
    : RlDataset;
  const datasets: PromptDataset[] = [];
  try {
    for (const group of groups) datasets.push(await datasetClass.open(group, tokenizer, options));
  } catch (error) {
    await Promise.all(datasets.map((dataset) => dataset.close()));
    throw error;
  }
  return datasets;
}

/** verl's loaders: training shuffles and drops the rest; validation is one batch by default and drops nothing. */
export function openLoader(
  datasets: readonly PromptDataset[],
  config: DataConfig,
  split: 'train' | 'val',
  sampler?: Sampler,
): DataLoader<RlItem> {
  const source: ItemSource<RlItem> =
    datasets.length === 1 ? (datasets[0] as PromptDataset) : new ConcatSource(datasets);
  const seed = config.seed ?? 1;
  if (split === 'val') {
    const batchSize = config.val_batch_size ?? Math.max(1, source.length);
    return new DataLoader(source, { batchSize, shuffle: config.validation_shuffle, seed });
  }
  const batchSize = config.gen_batch_size ?? config.train_batch_size;
  const lengths = datasets.map((dataset) => dataset.length);
  const mixing = config.train_weights ? new MixingSampler(lengths, config.train_weights, seed) : undefined;
  return new DataLoader(source, {
    batchSize,
    shuffle: config.shuffle ?? true,
    seed,
    dropLast: true,
    sampler: sampler ?? mixing,
  });
}

/** The sampler that `data.sampler` names, if any. */
export async function openSampler(
  datasets: readonly PromptDataset[],
  config: DataConfig,
): Promise<Sampler | undefined> {
  const { class_path: path, class_name: name } = config.sampler ?? {};
  if (!path) return undefined;
  const samplerClass = await importExport<SamplerClass>(path, name, 'data.sampler');
  const length = datasets.reduce((sum, dataset) => sum + dataset.length, 0);
  return new samplerClass({ datasets, length, config });
}

async function importExport<T>(path: string, name: string | null | undefined, key: string): Promise<T> {
  let module: Record<string, unknown>;
  try {
    module = await importModule(resolve(path));
  } catch (error) {
    throw new UserError(`${key}: cannot load ${path}: ${(error as Error).message}`, { cause: error });
  }
  const found = module[name ?? 'default'];
  if (found === undefined) {
    throw new UserError(
      `${key}: ${path} has no export "${name ?? 'default'}"; it has ${Object.keys(module).join(', ')}`,
    );
  }
  return found as T;
}

async function readFormatPrompt(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    throw new UserError(`data.format_prompt: ${(error as Error).message}`);
  }
}
