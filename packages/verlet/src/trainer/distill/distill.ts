/**
 * On-policy distillation: the student samples, a teacher says how likely it finds every token, and the student is moved towards
 * it. The loop, rewards, validation, checkpoints and metrics are the trainer's; only what the reference is has changed.
 */
import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { openDatasets, openLoader } from '../../data/index.js';
import { resolveModel } from '../../models/hub/index.js';
import { Tokenizer } from '../../models/tokenizer/index.js';
import { defaultComputeScore, knownDataSources, type RewardFunction } from '../../rewards/index.js';
import { type Checkpointed, Checkpoints } from '../checkpoints.js';
import { observeRun } from '../observe.js';
import { PpoTrainer } from '../ppo.js';
import { openReward } from '../reward-setup.js';
import type { Tracker } from '../trackers/index.js';
import type { TrainOptions, TrainResult } from '../train.js';
import { Validator } from '../validation.js';
import { openWorkerGroups } from '../worker-groups.js';
import { DistilledActor } from './distilled-actor.js';
import { checkDistillation, distillingConfig } from './settings.js';
import { Teachers } from './teachers.js';

export async function distill(options: TrainOptions): Promise<TrainResult> {
  checkDistillation(options.config);
  const config = distillingConfig(options.config);
  const runFolder = config.trainer.default_local_dir;
  const modelFolder = await resolveModel(config.actor_rollout_ref.model.path);
  const tokenizer = await Tokenizer.load(config.actor_rollout_ref.model.tokenizer_path ?? modelFolder);
  const closing: (() => unknown)[] = [];
  let outcome: 'finished' | 'interrupted' | 'failed' = 'failed';
  try {
    const trainSets = await openDatasets(config.data as never, 'train', { tokenizer });
    closing.push(() => Promise.all(trainSets.map((dataset) => dataset.close())));
    const valSets = config.data.val_files ? await openDatasets(config.data as never, 'val', { tokenizer }) : [];
    closing.push(() => Promise.all(valSets.map((dataset) => dataset.close())));
    const loader = openLoader(trainSets, config.data as never, 'train');
    const totalSteps = config.trainer.total_training_steps ?? loader.batchesPerEpoch * config.trainer.total_epochs;
    const teachers = await Teachers.open(config, tokenizer);
    closing.push(() => teachers.dispose());
    const reward = options.reward ?? rewardWithoutTask(options);
    const { loop, manager } = await openReward(config, tokenizer, () => workers.actor, { ...options, reward });
    closing.push(() => manager.close());
    const { agent, tools, interactions } = options;
    const workers = await openWorkerGroups(config, { agent, tools, interactions });
    closing.push(() => workers.close());
    const { actor: student, critic } = workers;
    await student.initModel({ totalSteps, useReference: false });
    await critic?.initModel({ totalSteps });
    await mkdir(runFolder, { recursive: true });
    await writeFile(path.join(runFolder, 'config.json'), `${JSON.stringify(options.config, null, 2)}\n`);

    const actor = new DistilledActor(student, teachers, config);
    const decode = (ids: ArrayLike<number>): string => tokenizer.decode(ids, { skipSpecialTokens: true });
    const validator = valSets.length
      ? new Validator(config, actor, openLoader(valSets, config.data as never, 'val'), loop, decode)
      : null;
    const member = (name: Checkpointed['name'], group: Pick<typeof student, 'saveCheckpoint' | 'loadCheckpoint'>) => ({
      name,
      saveCheckpoint: async (folder: string) => void (await group.saveCheckpoint(folder)),
      loadCheckpoint: async (folder: string) => void (await group.loadCheckpoint(folder)),
    });
    const members: Checkpointed[] = [member('actor', student)];
    if (critic) members.push(member('critic', critic as never));
    let metrics: Record<string, number> = {};
    const remember: Tracker = {
      name: 'last',
      log(values) {
        metrics = { ...values };
      },
    };
    const observers = observeRun(config, {
      runFolder,
      totalSteps,
      decode: (ids, decodeOptions) => tokenizer.decode(ids, decodeOptions),
      examples: () => validator?.examples ?? [],
      extra: [remember, ...(options.trackers ?? [])],
      currentStep: () => trainer.globalStep,
    });
    const { trackers, guards, trace } = observers;
    closing.push(() => trackers.finish(outcome));
    const trainer: PpoTrainer = new PpoTrainer({
      config,
      actor,
      critic,
      loader,
      reward: loop,
      validator,
      checkpoints: new Checkpoints(config, members, loader),
      trackers,
      // They watch scores, which say nothing here when the task's rewards do not count.
      guards: config.distillation.distillation_loss.use_task_rewards ? guards : undefined,
      trace,
      totalSteps,
      worldSize: workers.worldSize,
      shouldStop: () => options.signal?.aborted ?? false,
    });
    await trainer.fit();
    outcome = options.signal?.aborted ? 'interrupted' : 'finished';
    return { globalStep: trainer.globalStep, metrics, runFolder, interrupted: outcome === 'interrupted' };
  } finally {
    for (const close of closing.reverse()) await close();
  }
}

/** Where rewards do not count, rows need no ground truth: those that have a score show it, the others show 0. */
function rewardWithoutTask({ config }: TrainOptions): RewardFunction | undefined {
  if (config.distillation.distillation_loss.use_task_rewards || config.custom_reward_function.path) return undefined;
  const known = knownDataSources();
  const isKnown = (source: string): boolean =>
    known.some((name) => (name.endsWith('*') ? source.startsWith(name.slice(0, -1)) : name === source));
  return (input, kwargs) =>
    isKnown(input.data_source) && input.ground_truth !== undefined ? defaultComputeScore(input, kwargs) : 0;
}
