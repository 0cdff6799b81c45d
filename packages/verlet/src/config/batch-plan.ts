import { ConfigError, type ConfigProblem } from './errors.js';
import type { PpoConfig } from './schema/index.js';

/** How one training step is cut up, counted in prompts and in trajectories so that neither is mistaken for the other. */
export interface BatchPlan {
  worldSize: number;
  promptsPerStep: number;
  samplesPerPrompt: number;
  trajectoriesPerStep: number;
  trajectoriesPerRank: number;
  actor: UpdatePlan;
  /** Null when no critic is trained. */
  critic: UpdatePlan | null;
  /** The pass that recomputes log-probabilities; null when they are taken from sampling. */
  oldLogProb: PassPlan | null;
  /** The pass of the reference policy; null when no KL is used. */
  refLogProb: PassPlan | null;
  /** Null while the number of training rows is unknown. */
  stepsPerEpoch: number | null;
  totalSteps: number | null;
}

export interface UpdatePlan {
  miniBatchPrompts: number;
  miniBatchTrajectories: number;
  miniBatchTrajectoriesPerRank: number;
  /** Optimiser steps in one training step, all epochs together. */
  optimizerSteps: number;
  /** Null with dynamic batches, whose number depends on lengths. */
  microBatchTrajectoriesPerRank: number | null;
  microStepsPerOptimizerStep: number | null;
  /** Token budget of a dynamic micro-batch, else null. */
  maxTokensPerMicroBatch: number | null;
  epochs: number;
}

export interface PassPlan {
  trajectoriesPerPass: number | null;
  passesPerRank: number | null;
  maxTokensPerPass: number | null;
}

export const worldSizeOf = (config: { trainer: { nnodes: number; n_gpus_per_node: number } }): number =>
  config.trainer.nnodes * config.trainer.n_gpus_per_node;

export const usesCritic = (config: PpoConfig): boolean =>
  config.critic.enable ?? config.algorithm.adv_estimator === 'gae';

export const usesReference = (config: PpoConfig): boolean =>
  config.actor_rollout_ref.actor.use_kl_loss || config.algorithm.use_kl_in_reward;

/** Throws a `ConfigError` that lists every size that does not divide. */
export function batchPlan(
  config: PpoConfig,
  worldSize: number = worldSizeOf(config),
  options: { trainRows?: number } = {},
): BatchPlan {
  const problems = batchProblems(config, worldSize);
  if (problems.length > 0) throw new ConfigError(problems);
  const { actor, rollout, ref } = config.actor_rollout_ref;
  const trajectoriesPerStep = config.data.train_batch_size * rollout.n;
  const trajectoriesPerRank = trajectoriesPerStep / worldSize;
  const stepsPerEpoch =
    options.trainRows === undefined ? null : Math.floor(options.trainRows / config.data.train_batch_size);
  return {
    worldSize,
    promptsPerStep: config.data.train_batch_size,
    samplesPerPrompt: rollout.n,
    trajectoriesPerStep,
    trajectoriesPerRank,
    actor: updatePlan(config, actor, worldSize),
    critic: usesCritic(config) ? updatePlan(config, config.critic, worldSize) : null,
    oldLogProb: config.algorithm.rollout_correction.bypass_mode
      ? null
      : passPlan(rollout, trajectoriesPerRank, worldSize),
    refLogProb: usesReference(config) ? passPlan(ref, trajectoriesPerRank, worldSize) : null,
    stepsPerEpoch,
    totalSteps:
      config.trainer.total_training_steps ??
      (stepsPerEpoch === null ? null : stepsPerEpoch * config.trainer.total_epochs),
  };
}

interface UpdateSizes {
  ppo_mini_batch_size: number;
  ppo_micro_batch_size: number | null;
  ppo_micro_batch_size_per_gpu: number | null;
  use_dynamic_bsz: boolean;
  ppo_max_token_len_per_gpu: number;
  ppo_epochs: number;
}

interface PassSizes {
  log_prob_micro_batch_size: number | null;
  log_prob_micro_batch_size_per_gpu: number | null;
  log_prob_use_dynamic_bsz: boolean;
  log_prob_max_token_len_per_gpu: number;
}

const perRank = (perGpu: number | null, global: number | null, worldSize: number): number | null =>
  perGpu ?? (global === null ? null : Math.floor(global / worldSize));

function updatePlan(config: PpoConfig, sizes: UpdateSizes, worldSize: number): UpdatePlan {
  const miniBatchTrajectories = sizes.ppo_mini_batch_size * config.actor_rollout_ref.rollout.n;
  const miniBatchTrajectoriesPerRank = miniBatchTrajectories / worldSize;
  const micro = sizes.use_dynamic_bsz
    ? null
    : perRank(sizes.ppo_micro_batch_size_per_gpu, sizes.ppo_micro_batch_size, worldSize);
  return {
    miniBatchPrompts: sizes.ppo_mini_batch_size,
    miniBatchTrajectories,
    miniBatchTrajectoriesPerRank,
    optimizerSteps: (config.data.train_batch_size / sizes.ppo_mini_batch_size) * sizes.ppo_epochs,
    microBatchTrajectoriesPerRank: micro,
    microStepsPerOptimizerStep: micro === null ? null : miniBatchTrajectoriesPerRank / micro,
    maxTokensPerMicroBatch: sizes.use_dynamic_bsz ? sizes.ppo_max_token_len_per_gpu : null,
    epochs: sizes.ppo_epochs,
  };
}

function passPlan(sizes: PassSizes, trajectoriesPerRank: number, worldSize: number): PassPlan {
  const size = sizes.log_prob_use_dynamic_bsz
    ? null
    : perRank(sizes.log_prob_micro_batch_size_per_gpu, sizes.log_prob_micro_batch_size, worldSize);
  return {
    trajectoriesPerPass: size,
    passesPerRank: size === null ? null : Math.ceil(trajectoriesPerRank / size),
    maxTokensPerPass: sizes.log_prob_use_dynamic_bsz ? sizes.log_prob_max_token_len_per_gpu : null,
  };
}

/** Everything about batch sizes that cannot work with this many ranks. */
export function batchProblems(config: PpoConfig, worldSize: number): ConfigProblem[] {
  const { actor, rollout, ref } = config.actor_rollout_ref;
  const prompts = config.data.train_batch_size;
  const problems: ConfigProblem[] = [];
  if ((prompts * rollout.n) % worldSize !== 0) {
    problems.push({
      path: 'data.train_batch_size',
      message: `${prompts} prompts x ${rollout.n} samples = ${prompts * rollout.n} trajectories do not divide among ${worldSize} ranks`,
    });
  }
  problems.push(...updateProblems('actor_rollout_ref.actor', actor, config, worldSize));
  if (usesCritic(config)) problems.push(...updateProblems('critic', config.critic, config, worldSize));
  if (!config.algorithm.rollout_correction.bypass_mode)
    problems.push(...passProblems('actor_rollout_ref.rollout', rollout, config, worldSize));
  if (usesReference(config)) problems.push(...passProblems('actor_rollout_ref.ref', ref, config, worldSize));
  return problems;
}

function updateProblems(role: string, sizes: UpdateSizes, config: PpoConfig, worldSize: number): ConfigProblem[] {
  const problems: ConfigProblem[] = [];
  const prompts = config.data.train_batch_size;
  const mini = sizes.ppo_mini_batch_size;
  const samples = config.actor_rollout_ref.rollout.n;
  const key = `${role}.ppo_mini_batch_size`;
  if (mini > prompts)
    problems.push({
      path: key,
      message: `${mini} prompts per optimiser step, but a step has only data.train_batch_size=${prompts}`,
    });
  else if (prompts % mini !== 0) {
    problems.push({
      path: key,
      message: `data.train_batch_size=${prompts} is not a multiple of it (${mini}); the last optimiser step would be smaller`,
    });
  }
  if ((mini * samples) % worldSize !== 0) {
    problems.push({
      path: key,
      message: `${mini} prompts x ${samples} samples = ${mini * samples} trajectories do not divide among ${worldSize} ranks`,
    });
  }
  const micro = {
    global: sizes.ppo_micro_batch_size,
    perGpu: sizes.ppo_micro_batch_size_per_gpu,
    dynamic: sizes.use_dynamic_bsz,
  };
  problems.push(...microProblems(role, 'ppo_micro_batch_size', 'use_dynamic_bsz', micro, worldSize));
  if (sizes.use_dynamic_bsz)
    problems.push(...budgetProblems(`${role}.ppo_max_token_len_per_gpu`, sizes.ppo_max_token_len_per_gpu, config));
  const microPerRank = perRank(micro.perGpu, micro.global, worldSize);
  const miniPerRank = (mini * samples) / worldSize;
  if (problems.length === 0 && !micro.dynamic && microPerRank !== null && miniPerRank % microPerRank !== 0) {
    problems.push({
      path: `${role}.ppo_micro_batch_size_per_gpu`,
      message: `${microPerRank} trajectories do not divide the ${miniPerRank} that a rank has per optimiser step (${mini} prompts x ${samples} samples / ${worldSize} ranks)`,
    });
  }
  return problems;
}

function passProblems(role: string, sizes: PassSizes, config: PpoConfig, worldSize: number): ConfigProblem[] {
  const micro = {
    global: sizes.log_prob_micro_batch_size,
    perGpu: sizes.log_prob_micro_batch_size_per_gpu,
    dynamic: sizes.log_prob_use_dynamic_bsz,
  };
  const problems = microProblems(role, 'log_prob_micro_batch_size', 'log_prob_use_dynamic_bsz', micro, worldSize);
  if (micro.dynamic)
    problems.push(
      ...budgetProblems(`${role}.log_prob_max_token_len_per_gpu`, sizes.log_prob_max_token_len_per_gpu, config),
    );
  return problems;
}

export interface MicroBatch {
  global: number | null;
  perGpu: number | null;
  dynamic: boolean;
}

/** verl's rule: exactly one of the two sizes, or neither with dynamic batches; the old global one must reach every rank. */
export function microProblems(
  role: string,
  name: string,
  dynamicName: string,
  micro: MicroBatch,
  worldSize: number,
): ConfigProblem[] {
  if (micro.dynamic) return [];
  const prefix = role === '' ? '' : `${role}.`;
  const path = `${prefix}${name}_per_gpu`;
  if (micro.global === null && micro.perGpu === null) {
    return [{ path, message: `set it (or ${prefix}${dynamicName}=true to fill micro-batches by tokens)` }];
  }
  if (micro.global !== null && micro.perGpu !== null) {
    return [{ path, message: `is set together with ${prefix}${name}; keep only this one, which counts per device` }];
  }
  if (micro.global === null) return [];
  if (micro.global < worldSize)
    return [
      {
        path: `${prefix}${name}`,
        message: `${micro.global} is less than one trajectory for each of ${worldSize} ranks`,
      },
    ];
  if (micro.global % worldSize !== 0)
    return [{ path: `${prefix}${name}`, message: `${micro.global} does not divide among ${worldSize} ranks` }];
  return [];
}

function budgetProblems(path: string, tokens: number, config: PpoConfig): ConfigProblem[] {
  const { prompt_length, response_length } = config.actor_rollout_ref.rollout;
  if (tokens >= prompt_length + response_length) return [];
  return [
    {
      path,
      message: `${tokens} tokens cannot hold one trajectory of up to ${prompt_length} + ${response_length} tokens`,
    },
  ];
}

/** The plan as a few lines to read before a run. */
export function renderBatchPlan(plan: BatchPlan): string {
  const ranks = plan.worldSize === 1 ? 'on 1 rank' : `on ${plan.worldSize} ranks, ${plan.trajectoriesPerRank} each`;
  const lines = [
    `one step     ${plan.promptsPerStep} prompts x ${plan.samplesPerPrompt} ${plural(plan.samplesPerPrompt, 'sample')} = ${plan.trajectoriesPerStep} trajectories ${ranks}`,
    ...(plan.oldLogProb === null ? [] : [`log-probs    ${renderPass(plan.oldLogProb)}`]),
    ...(plan.refLogProb === null ? [] : [`reference    ${renderPass(plan.refLogProb)}`]),
    ...(plan.critic === null ? [] : [`critic       ${renderUpdate(plan.critic)}`]),
    `actor        ${renderUpdate(plan.actor)}`,
  ];
  if (plan.stepsPerEpoch !== null)
    lines.push(`epoch        ${plan.stepsPerEpoch} ${plural(plan.stepsPerEpoch, 'step')}`);
  if (plan.totalSteps !== null) {
    lines.push(
      `whole run    ${plan.totalSteps} ${plural(plan.totalSteps, 'step')}, ${plan.totalSteps * plan.actor.optimizerSteps} optimiser steps of the actor`,
    );
  }
  return ['batch plan', ...lines.map((line) => `  ${line}`)].join('\n');
}

function renderUpdate(update: UpdatePlan): string {
  const steps = `${update.optimizerSteps} optimiser ${plural(update.optimizerSteps, 'step')}`;
  const epochs = update.epochs === 1 ? '' : ` in ${update.epochs} epochs`;
  const size = `of ${update.miniBatchPrompts} prompts = ${update.miniBatchTrajectories} trajectories`;
  const micro =
    update.microStepsPerOptimizerStep === null
      ? `micro-steps by tokens, up to ${update.maxTokensPerMicroBatch} per rank`
      : `${update.microStepsPerOptimizerStep} micro-${plural(update.microStepsPerOptimizerStep, 'step')} of ${update.microBatchTrajectoriesPerRank} per rank`;
  return `${steps}${epochs} ${size}, ${micro}`;
}

const renderPass = (pass: PassPlan): string =>
  pass.passesPerRank === null
    ? `passes by tokens, up to ${pass.maxTokensPerPass} per rank`
    : `${pass.passesPerRank} ${plural(pass.passesPerRank, 'pass', 'passes')} of ${pass.trajectoriesPerPass} trajectories per rank`;

const plural = (count: number, one: string, many = `${one}s`): string => (count === 1 ? one : many);
