/** DPO and reward models from a configuration: the keys of sft_trainer.yaml, and those of `objective`. */
import { type SftConfig, UserError } from '../../config/index.js';
import { fineTune, type RunOptions, type RunResult } from '../sft/fine-tune.js';
import { type ModelSource, openModelSource } from '../sft/model.js';
import { DpoLearner } from './dpo-learner.js';
import { PairDataset } from './pair-dataset.js';
import { RewardModelLearner } from './reward-model-learner.js';
import { type PreferenceSettings, preferenceSettings } from './settings.js';

/**
 * @example
 * const overrides = ['objective.name=dpo', 'data.train_files=pairs.parquet', 'model.partial_pretrain=./model'];
 * const { metrics } = await trainPreference({ config: composeConfig({ kind: 'sft', overrides }).config });
 */
export async function trainPreference(options: RunOptions): Promise<RunResult> {
  const { config } = options;
  const settings = preferenceSettings(config);
  checkOneDevice(config.trainer);
  const source = await openModelSource(config);
  const train = await openPairs(config, settings, source, 'train');
  let validation: PairDataset | null = null;
  try {
    validation = config.data.val_files ? await openPairs(config, settings, source, 'val') : null;
    await train.item(0);
    const kind = settings.objective === 'dpo' ? DpoLearner : RewardModelLearner;
    return await fineTune(options, {
      train,
      validation,
      createLearner: (totalSteps) => kind.create(config, settings, source, totalSteps),
    });
  } finally {
    await train.close();
    await validation?.close();
  }
}

function checkOneDevice({ nnodes, n_gpus_per_node }: SftConfig['trainer']): void {
  if (nnodes * n_gpus_per_node > 1)
    throw new UserError(
      `trainer.nnodes=${nnodes} and trainer.n_gpus_per_node=${n_gpus_per_node} ask for ${nnodes * n_gpus_per_node} ` +
        'devices; learning from pairs runs on one. Set both to 1',
      { exitCode: 2 },
    );
}

async function openPairs(
  config: SftConfig,
  settings: PreferenceSettings,
  source: ModelSource,
  split: 'train' | 'val',
): Promise<PairDataset> {
  const { data } = config;
  const files = (split === 'train' ? data.train_files : data.val_files) as string | string[];
  const dataset = await PairDataset.open(files, source.tokenizer, {
    settings,
    maxLength: data.max_length,
    maxSamples: split === 'train' ? data.train_max_samples : data.val_max_samples,
    chatTemplate: source.chatTemplate,
    applyChatTemplateKwargs: data.apply_chat_template_kwargs,
  });
  if (dataset.length > 0) return dataset;
  await dataset.close();
  throw new UserError(`data.${split}_files=${String(files)}: there are no rows`);
}
