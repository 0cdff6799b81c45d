/** Supervised fine-tuning from a configuration: data, model, loop. */
import { resolve } from 'node:path';
import { importModule } from '../../config/import-module.js';
import { expandHome, type SftConfig, UserError } from '../../config/index.js';
import { type ItemSource, SftDataset, type SftDatasetOptions, type SftItem } from '../../data/index.js';
import type { Tokenizer } from '../../models/tokenizer/index.js';
import { fineTune, type RunOptions, type RunResult } from './fine-tune.js';
import { type ModelSource, openModelSource } from './model.js';
import { RankedSftLearner } from './ranked-learner.js';
import { SftLearner } from './sft-learner.js';

type OpenedDataset = ItemSource<SftItem> & { close(): Promise<void> };

/** What the export named by `data.custom_cls` has to offer. */
export interface SftDatasetClass {
  open(files: string | readonly string[], tokenizer: Tokenizer, options: SftDatasetOptions): Promise<OpenedDataset>;
}

/**
 * @example
 * const { config } = composeConfig({ kind: 'sft', overrides: ['data.train_files=train.parquet', 'model.partial_pretrain=./model'] });
 * const { metrics, checkpoint } = await sft({ config });
 */
export async function sft(options: RunOptions): Promise<RunResult> {
  const { config } = options;
  const source = await openModelSource(config);
  const train = await openExamples(config, source, 'train');
  let validation: OpenedDataset | null = null;
  try {
    validation = config.data.val_files ? await openExamples(config, source, 'val') : null;
    // The first row shows whether columns and template fit, before a model is loaded for minutes.
    await train.items([0]);
    return await fineTune(options, {
      train,
      validation,
      createLearner: (totalSteps) =>
        config.trainer.nnodes * config.trainer.n_gpus_per_node > 1
          ? RankedSftLearner.create(config, totalSteps)
          : SftLearner.create(config, source, totalSteps),
    });
  } finally {
    await train.close();
    await validation?.close();
  }
}

async function openExamples(config: SftConfig, source: ModelSource, split: 'train' | 'val'): Promise<OpenedDataset> {
  const { data } = config;
  const { multiturn } = data;
  const custom = data.custom_cls;
  const datasetClass: SftDatasetClass = custom.path ? await importDataset(custom.path, custom.name) : SftDataset;
  const files = (split === 'train' ? data.train_files : data.val_files) as string | string[];
  const dataset = await datasetClass.open(files, source.tokenizer, {
    promptKey: data.prompt_key,
    responseKey: data.response_key,
    promptDictKeys: data.prompt_dict_keys,
    responseDictKeys: data.response_dict_keys,
    multiturn: multiturn.enable
      ? {
          messagesKey: multiturn.messages_key,
          toolsKey: multiturn.tools_key,
          enableThinkingKey: multiturn.enable_thinking_key,
        }
      : null,
    maxLength: data.max_length,
    truncation: data.truncation as SftDatasetOptions['truncation'],
    chatTemplate: source.chatTemplate,
    applyChatTemplateKwargs: data.apply_chat_template_kwargs,
    ignoreInputIdsMismatch: data.ignore_input_ids_mismatch,
    maxSamples: split === 'train' ? data.train_max_samples : data.val_max_samples,
  });
  if (dataset.length === 0) {
    await dataset.close();
    throw new UserError(`data.${split}_files=${String(files)}: there are no rows`);
  }
  return dataset;
}

async function importDataset(file: string, name: string | null): Promise<SftDatasetClass> {
  let module: Record<string, unknown>;
  try {
    module = await importModule(resolve(expandHome(file)));
  } catch (error) {
    throw new UserError(`data.custom_cls.path: cannot load ${file}: ${(error as Error).message}`, { cause: error });
  }
  const found = module[name ?? 'default'];
  if (typeof (found as Partial<SftDatasetClass> | undefined)?.open !== 'function')
    throw new UserError(`data.custom_cls: ${file} has no export "${name ?? 'default'}" with a function open`);
  return found as SftDatasetClass;
}
