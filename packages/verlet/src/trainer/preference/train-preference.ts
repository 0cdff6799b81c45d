/** DPO and reward models from a configuration: the keys of sft_trainer.yaml, and a few settings of pairs. */
import { type SftConfig, UserError } from '../../config/index.js';
import { fineTune, type RunOptions, type RunResult } from '../sft/fine-tune.js';
import { type ModelSource, openModelSource } from '../sft/model.js';
import { DpoLearner } from './dpo-learner.js';
import { PairDataset } from './pair-dataset.js';
import { RewardModelLearner } from './reward-model-learner.js';
import { checkPreferenceSettings, PREFERENCE_DEFAULTS, type PreferenceSettings } from './settings.js';

export interface PreferenceOptions extends RunOptions {
  preference: Pick<PreferenceSettings, 'objective'> & Partial<PreferenceSettings>;
}

/**
 * @example
 * await trainPreference({ config, preference: { objective: 'dpo', beta: 0.1 } });
 */
export async function trainPreference(options: PreferenceOptions): Promise<RunResult> {
  const { config } = options;
  const settings: PreferenceSettings = { ...PREFERENCE_DEFAULTS, ...options.preference };
  checkPreferenceSettings(settings);
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
