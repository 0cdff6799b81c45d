/** Puts a run together from a configuration: data, workers, rewards, trackers; runs it; leaves a report. */
import { type Interaction, loadToolSchemas, type Tool } from '../agents/index.js';
import type { AdvantageEstimator, PolicyLoss } from '../algorithms/index.js';
import { type PpoConfig, UserError, usesReference } from '../config/index.js';
import { openDatasets, openLoader, openSampler, type PromptDataset } from '../data/index.js';
import type { Tokenizer } from '../models/tokenizer/index.js';
import type { RewardFunction } from '../rewards/index.js';
import type { TrainedAgent } from '../workers/agent-rollout.js';
import { openTokenizer } from '../workers/model-source.js';
import { type Checkpointed, Checkpoints } from './checkpoints.js';
import { observeRun } from './observe.js';
import { type ActorGroup, PpoTrainer } from './ppo.js';
import { openReward } from './reward-setup.js';
import { openRunFolder } from './run-folder.js';
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

/** What a relative of the trainer changes; the rest of a run is the same. */
export interface TrainVariant {
  /** What the loop reads, where that is not what the person wrote. */
  config?: PpoConfig;
  reward?: RewardFunction;
  /** Whether the actor keeps a reference of its own; as the configuration says when it is not given. */
  useReference?: boolean;
  /** Loads what stands between the loop and the actor, before the actor's own model is loaded. */
  openPolicy?(config: PpoConfig, tokenizer: Tokenizer): Promise<PolicyLayer>;
  /** Whether scores say something that guards can watch; so it is unless said otherwise. */
  watchesScores?: boolean;
}

export interface PolicyLayer {
  around(actor: ActorGroup): ActorGroup;
  close(): void;
}

export function train(options: TrainOptions): Promise<TrainResult> {
  return runTraining(options);
}

type Outcome = 'finished' | 'interrupted' | 'failed';

export async function runTraining(given: TrainOptions, variant: TrainVariant = {}): Promise<TrainResult> {
  const config = variant.config ?? given.config;
  const options = { ...given, reward: given.reward ?? variant.reward };
  const runFolder = await openRunFolder(given.config);

  let metrics: Record<string, number> = {};
  const remember: Tracker = {
    name: 'last',
    log(values) {
      metrics = { ...values };
    },
  };
  // What was opened last is closed first; nobody is left open when something later cannot be opened.
  const closing: (() => unknown)[] = [];
  let outcome: Outcome = 'failed';
  try {
    const tokenizer = await openTokenizer(config.actor_rollout_ref.model);
    const tools = [...(await loadToolSchemas(config.data)), ...(options.tools ?? []).map(({ schema }) => schema)];
    const openSplit = async (split: 'train' | 'val') => {
      const sets = await openDatasets(config.data as never, split, { tokenizer, tools });
      closing.push(...sets.map((dataset) => () => dataset.close()));
      describeRows(config, split, sets);
      return sets;
    };
    const trainSets = await openSplit('train');
    const loader = openLoader(
      trainSets,
      config.data as never,
      'train',
      await openSampler(trainSets, config.data as never),
    );
    const valSets = config.data.val_files ? await openSplit('val') : [];
    const totalSteps = config.trainer.total_training_steps ?? loader.batchesPerEpoch * config.trainer.total_epochs;

    const layer = await variant.openPolicy?.(config, tokenizer);
    if (layer) closing.push(() => layer.close());
    const { loop: reward, manager } = await openReward(config, tokenizer, () => workers.actor, options);
    closing.push(() => manager.close());

    const observers = observeRun(config, {
      runFolder,
      totalSteps,
      decode: (ids, decodeOptions) => tokenizer.decode(ids, decodeOptions),
      examples: () => validator?.examples ?? [],
      extra: [remember, ...(options.trackers ?? [])],
      currentStep: () => trainer.globalStep,
    });
    const { trackers, guards, trace } = observers;
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
    closing.push(
      () => workers.close(),
      () => trackers.finish(outcome),
    );
    const { critic } = workers;
    const useReference = variant.useReference ?? (usesReference(config) || reward.needs.refLogProb);
    await workers.actor.initModel({ totalSteps, useReference });
    await critic?.initModel({ totalSteps });

    const actor = layer?.around(workers.actor) ?? workers.actor;
    const decode = (ids: ArrayLike<number>): string => tokenizer.decode(ids, { skipSpecialTokens: true });
    const validator = valSets.length
      ? new Validator(config, actor, openLoader(valSets, config.data as never, 'val'), reward, decode)
      : null;
    const members: Checkpointed[] = [member('actor', workers.actor), ...(critic ? [member('critic', critic)] : [])];
    const trainer: PpoTrainer = new PpoTrainer({
      config,
      actor: withStoredRollouts(observers.guarded(actor), config),
      critic: critic && observers.guarded(critic),
      loader,
      reward,
      validator,
      checkpoints: new Checkpoints(config.trainer, members, loader),
      trackers,
      guards: variant.watchesScores === false ? undefined : guards,
      trace,
      totalSteps,
      advantage: options.advantage,
      worldSize: workers.worldSize,
      shouldStop: () => options.signal?.aborted ?? false,
    });
    await trainer.fit();
    outcome = options.signal?.aborted ? 'interrupted' : 'finished';
    return { globalStep: trainer.globalStep, metrics, runFolder, interrupted: outcome === 'interrupted' };
  } finally {
    await closeAll(outcome === 'failed', closing.reverse());
  }
}

/** A file without rows is the person's to mend; rows that were left out are told. */
function describeRows(config: PpoConfig, split: 'train' | 'val', sets: readonly PromptDataset[]): void {
  const key = `data.${split}_files`;
  if (sets.every(({ length }) => length === 0))
    throw new UserError(`${key}=${[config.data[`${split}_files`]].flat().join(',')}: there are no rows`);
  const sum = (count: 'overlong' | 'total'): number =>
    sets.reduce((all, { report }) => all + (report?.[count] ?? 0), 0);
  if (sum('overlong') > 0)
    console.warn(
      `${key}: ${sum('overlong')} of ${sum('total')} rows left out, their prompts are longer than ` +
        `data.max_prompt_length=${config.data.max_prompt_length}`,
    );
}

function member(name: Checkpointed['name'], group: Omit<Checkpointed, 'name'>): Checkpointed {
  return {
    name,
    saveCheckpoint: (folder) => group.saveCheckpoint(folder),
    loadCheckpoint: (folder) => group.loadCheckpoint(folder),
  };
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
