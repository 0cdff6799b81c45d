/** Puts a run together from a configuration: data, workers, rewards, trackers; runs it; leaves a report. */
import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { Interaction, Tool } from '../agents/index.js';
import type { AdvantageEstimator, PolicyLoss } from '../algorithms/index.js';
import { type PpoConfig, usesReference } from '../config/index.js';
import { openDatasets, openLoader, openSampler } from '../data/index.js';
import { resolveModel } from '../models/hub/index.js';
import { Tokenizer } from '../models/tokenizer/index.js';
import type { RewardFunction } from '../rewards/index.js';
import type { TrainedAgent } from '../workers/agent-rollout.js';
import { type Checkpointed, Checkpoints } from './checkpoints.js';
import { observeRun } from './observe.js';
import { PpoTrainer } from './ppo.js';
import { openReward } from './reward-setup.js';
import { withStoredRollouts } from './stored-rollouts.js';
import { traceCalls } from './trace/index.js';
import type { Tracker } from './trackers/index.js';
import { Validator } from './validation.js';
import { openWorkerGroups, type WorkerGroups } from './worker-groups.js';

export interface TrainOptions {
  config: PpoConfig;
  /** Scores one sample; instead of `custom_reward_function`. */
  reward?: RewardFunction;
  /** What `reward` reads beyond the text, per response token: `log_probs`, `entropy`, `ref_log_prob`. */
  rewardNeeds?: readonly string[];
  /**
   * A program to train as it is, run once per sample instead of an agent loop. It talks to the policy through the Vercel AI
   * SDK (`context.model`) or any OpenAI client (`context.baseURL`, `context.apiKey`); what it returns is the reward.
   */
  agent?: TrainedAgent;
  /** Says what each token was worth, instead of the estimator that `algorithm.adv_estimator` names. */
  advantage?: AdvantageEstimator;
  /** The loss of the policy, instead of the one that `actor.policy_loss.loss_mode` names. In this process only. */
  policyLoss?: PolicyLoss;
  tools?: readonly Tool[];
  interactions?: readonly Interaction[];
  /** Further places for metrics. */
  trackers?: readonly Tracker[];
  /** Finish the step, save and stop. */
  signal?: AbortSignal;
}

export interface TrainResult {
  globalStep: number;
  /** The last step's metrics. */
  metrics: Record<string, number>;
  runFolder: string;
  interrupted: boolean;
}

export async function train(options: TrainOptions): Promise<TrainResult> {
  const { config } = options;
  const runFolder = config.trainer.default_local_dir;
  await mkdir(runFolder, { recursive: true });
  await writeFile(path.join(runFolder, 'config.json'), `${JSON.stringify(config, null, 2)}\n`);

  const modelFolder = await resolveModel(config.actor_rollout_ref.model.path);
  const tokenizer = await Tokenizer.load(config.actor_rollout_ref.model.tokenizer_path ?? modelFolder);
  const trainSets = await openDatasets(config.data as never, 'train', { tokenizer });
  const sampler = await openSampler(trainSets, config.data as never);
  const loader = openLoader(trainSets, config.data as never, 'train', sampler);
  const valSets = config.data.val_files ? await openDatasets(config.data as never, 'val', { tokenizer }) : [];
  const totalSteps = config.trainer.total_training_steps ?? loader.batchesPerEpoch * config.trainer.total_epochs;

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
    decode: (ids, options) => tokenizer.decode(ids, options),
    examples: () => validator?.examples ?? [],
    extra: [remember, ...(options.trackers ?? [])],
    currentStep: () => trainer.globalStep,
  });
  const { trackers, guards, trace } = observers;

  const { loop: reward, manager } = await openReward(config, tokenizer, () => workers.actor, options);
  const workers: WorkerGroups = await openWorkerGroups(
    config,
    {
      agent: options.agent,
      // Ranks in other processes hand over whole batches.
      onTrajectory: samplesHere(config) ? (trajectory, row) => reward.start(trajectory, row) : undefined,
      policyLoss: options.policyLoss,
      tools: options.tools,
      interactions: options.interactions,
    },
    traceCalls(trace),
  );
  const { actor, critic } = workers;
  const close = (outcome: 'finished' | 'interrupted' | 'failed'): Promise<void> =>
    closeAll(outcome === 'failed', [
      () => trackers.finish(outcome),
      () => manager.close(),
      () => workers.close(),
      ...[...trainSets, ...valSets].map((dataset) => () => dataset.close()),
    ]);
  try {
    await actor.initModel({ totalSteps, useReference: usesReference(config) || reward.needs.refLogProb });
    await critic?.initModel({ totalSteps });
  } catch (error) {
    await close('failed');
    throw error;
  }

  const decode = (ids: ArrayLike<number>): string => tokenizer.decode(ids, { skipSpecialTokens: true });
  const validator = valSets.length
    ? new Validator(config, actor, openLoader(valSets, config.data as never, 'val'), reward, decode)
    : null;
  const members: Checkpointed[] = [
    {
      name: 'actor',
      saveCheckpoint: (folder) => actor.saveCheckpoint(folder),
      loadCheckpoint: (folder) => actor.loadCheckpoint(folder),
    },
  ];
  if (critic)
    members.push({
      name: 'critic',
      saveCheckpoint: (folder) => critic.saveCheckpoint(folder),
      loadCheckpoint: (folder) => critic.loadCheckpoint(folder),
    });
  const trainer: PpoTrainer = new PpoTrainer({
    config,
    actor: withStoredRollouts(observers.guarded(actor), config),
    critic: critic && observers.guarded(critic),
    loader,
    reward,
    validator,
    checkpoints: new Checkpoints(config, members, loader),
    trackers,
    guards,
    trace,
    totalSteps,
    advantage: options.advantage,
    worldSize: workers.worldSize,
    shouldStop: () => options.signal?.aborted ?? false,
  });
  let outcome: 'finished' | 'interrupted' | 'failed' = 'failed';
  try {
    await trainer.fit();
    outcome = options.signal?.aborted ? 'interrupted' : 'finished';
  } finally {
    await close(outcome);
  }
  return { globalStep: trainer.globalStep, metrics, runFolder, interrupted: options.signal?.aborted ?? false };
}

/** Whether trajectories are made in this process, and not by ranks in others. */
function samplesHere({ trainer: { launcher, nnodes, n_gpus_per_node } }: PpoConfig): boolean {
  return launcher === 'inline' || (launcher === 'auto' && nnodes * n_gpus_per_node === 1);
}

/** Everything is closed, whatever the others say. After a failure the failure is what is told, else the first that did not close. */
async function closeAll(hasFailed: boolean, parts: readonly (() => unknown)[]): Promise<void> {
  const errors: unknown[] = [];
  for (const part of parts)
    try {
      await part();
    } catch (error) {
      errors.push(error);
    }
  if (errors.length === 0) return;
  if (!hasFailed) throw errors[0];
  console.warn(`while closing after the failure: ${errors.map((error) => (error as Error).message).join('; ')}`);
}
