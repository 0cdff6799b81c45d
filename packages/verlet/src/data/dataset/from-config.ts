import { readFile } from 'node:fs/promises';
import type { Tokenizer, ToolSchema } from '../../models/tokenizer/index.js';
import { ConcatSource, DataLoader, type ItemSource, MixingSampler, type Sampler } from '../loader/index.js';
import { RlDataset, type RlDatasetOptions, type RlItem } from './rl-dataset.js';

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
}

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
  { tokenizer, tools, chatTemplate, onProgress }: OpenDatasetOptions,
): Promise<RlDataset[]> {
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
  const datasets: RlDataset[] = [];
  try {
    for (const group of groups) datasets.push(await RlDataset.open(group, tokenizer, options));
  } catch (error) {
    await Promise.all(datasets.map((dataset) => dataset.close()));
    throw error;
  }
  return datasets;
}

/** verl's loaders: training shuffles and drops the rest; validation is one batch by default and drops nothing. */
export function openLoader(
  datasets: readonly RlDataset[],
  config: DataConfig,
  split: 'train' | 'val',
  sampler?: Sampler,
): DataLoader<RlItem> {
  const source: ItemSource<RlItem> = datasets.length === 1 ? (datasets[0] as RlDataset) : new ConcatSource(datasets);
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

async function readFormatPrompt(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    throw new Error(`data.format_prompt: ${(error as Error).message}`);
  }
}
