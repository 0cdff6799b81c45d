import { batchProblems, microProblems, usesCritic, usesReference, worldSizeOf } from './batch-plan.js';
import type { ConfigProblem } from './errors.js';
import type { ConfigKind, ConfigOf, PpoConfig, SftConfig } from './schema/index.js';

/** What no single key can say about itself: settings that contradict each other. Run when a configuration is loaded. */
export interface CheckResult {
  problems: ConfigProblem[];
  warnings: string[];
}

const GROUP_ESTIMATORS = [
  'grpo',
  'grpo_vectorized',
  'gdpo',
  'rloo',
  'rloo_vectorized',
  'opo',
  'reinforce_plus_plus_baseline',
];
const TOKEN_BASELINES = ['optimal_token_baseline', 'tir_optimal_token_baseline'];

export function checkConfig<K extends ConfigKind>(kind: K, config: ConfigOf<K>): CheckResult {
  if (kind === 'ppo') return checkPpo(config as PpoConfig);
  if (kind === 'sft') return checkSft(config as SftConfig);
  return { problems: [], warnings: [] };
}

export function checkPpo(config: PpoConfig): CheckResult {
  const result: CheckResult = { problems: batchProblems(config, worldSizeOf(config)), warnings: [] };
  checkAlgorithm(config, result);
  checkRollout(config, result);
  checkRun(config, result);
  checkSequenceParallel(config, result);
  return result;
}

function checkAlgorithm(config: PpoConfig, { problems, warnings }: CheckResult): void {
  const { algorithm, critic } = config;
  const { actor, rollout } = config.actor_rollout_ref;
  const estimator = algorithm.adv_estimator;
  if (estimator === 'gae' && !usesCritic(config)) {
    problems.push({
      path: 'critic.enable',
      message: 'gae needs a critic; leave it null or choose another algorithm.adv_estimator',
    });
  }
  if (estimator !== 'gae' && critic.enable === true)
    warnings.push(`a critic is trained, but ${estimator} does not use its values`);
  if (rollout.n === 1 && estimator === 'grpo_passk') {
    problems.push({
      path: 'actor_rollout_ref.rollout.n',
      message: 'grpo_passk compares the two best responses of a prompt; set it above 1',
    });
  }
  if (rollout.n === 1 && GROUP_ESTIMATORS.includes(estimator)) {
    warnings.push(
      `${estimator} compares responses of one prompt, but actor_rollout_ref.rollout.n is 1: there is nothing to compare`,
    );
  }
  if (TOKEN_BASELINES.includes(estimator) && !actor.calculate_sum_pi_squared) {
    problems.push({
      path: 'actor_rollout_ref.actor.calculate_sum_pi_squared',
      message: `${estimator} needs it; set it to true`,
    });
  }
  if (estimator === 'gdpo' && algorithm.gdpo_reward_keys === null) {
    problems.push({
      path: 'algorithm.gdpo_reward_keys',
      message: 'gdpo needs the names of the rewards, for example [correct,format]',
    });
  }
  const { gdpo_reward_keys: keys, gdpo_reward_weights: weights } = algorithm;
  if (keys !== null && weights !== null && keys.length !== weights.length) {
    problems.push({
      path: 'algorithm.gdpo_reward_weights',
      message: `${weights.length} weights for ${keys.length} rewards`,
    });
  }
  if (actor.policy_loss.loss_mode === 'dro' && !((actor.policy_loss.dro_beta ?? 0) > 0)) {
    problems.push({
      path: 'actor_rollout_ref.actor.policy_loss.dro_beta',
      message: 'the dro loss needs a positive number',
    });
  }
  if (actor.use_kl_loss && algorithm.use_kl_in_reward) warnings.push('KL counts twice: in the loss and in the reward');
  const { low, high } = algorithm.filter_groups;
  if (low !== null && high !== null && low >= high) {
    problems.push({
      path: 'algorithm.filter_groups.low',
      message: `${low} is not below filter_groups.high=${high}; no group could pass`,
    });
  }
}

function checkRollout(config: PpoConfig, { problems }: CheckResult): void {
  const { rollout } = config.actor_rollout_ref;
  if (rollout.name === 'http' && rollout.server.base_url === null) {
    problems.push({
      path: 'actor_rollout_ref.rollout.server.base_url',
      message: 'actor_rollout_ref.rollout.name=http needs the address of a server',
    });
  }
  if (rollout.val_kwargs.do_sample && rollout.val_kwargs.temperature === 0) {
    problems.push({
      path: 'actor_rollout_ref.rollout.val_kwargs.temperature',
      message: 'sampling in validation needs a temperature above 0 (or do_sample=false)',
    });
  }
  if (!rollout.val_kwargs.do_sample && rollout.val_kwargs.n > 1) {
    problems.push({
      path: 'actor_rollout_ref.rollout.val_kwargs.n',
      message: 'greedy validation gives the same response every time; set do_sample=true and a temperature',
    });
  }
  const longest = rollout.prompt_length + rollout.response_length;
  if (rollout.max_model_len !== null && rollout.max_model_len < longest) {
    problems.push({
      path: 'actor_rollout_ref.rollout.max_model_len',
      message: `${rollout.max_model_len} is less than prompt_length + response_length = ${longest}`,
    });
  }
}

function checkRun(config: PpoConfig, { problems, warnings }: CheckResult): void {
  const { data, trainer, reward_model } = config;
  if (trainer.resume_mode === 'resume_path' && !/global_step_\d+/.test(trainer.resume_from_path ?? '')) {
    problems.push({
      path: 'trainer.resume_from_path',
      message: 'resume_mode=resume_path needs the folder of a checkpoint, whose name is global_step_N',
    });
  }
  warnings.push(
    ...checkpointWarnings('actor_rollout_ref.actor.checkpoint', config.actor_rollout_ref.actor.checkpoint),
    ...(usesCritic(config) ? checkpointWarnings('critic.checkpoint', config.critic.checkpoint) : []),
  );
  if (data.val_files === null && trainer.val_only)
    problems.push({ path: 'data.val_files', message: 'trainer.val_only needs validation rows' });
  if (data.val_files === null && trainer.test_freq > 0)
    warnings.push('trainer.test_freq has no effect: data.val_files is not set');
  const files = Array.isArray(data.train_files) ? data.train_files.length : 1;
  if (data.train_weights !== null && data.train_weights.length !== files) {
    problems.push({
      path: 'data.train_weights',
      message: `${data.train_weights.length} weights for ${files} training ${files === 1 ? 'file' : 'files'}`,
    });
  }
  if (reward_model.enable && reward_model.model.path === null)
    problems.push({ path: 'reward_model.model.path', message: 'reward_model.enable needs a model' });
}

const AFRESH = {
  model: 'the weights of model.path',
  optimizer: 'an optimiser that remembers nothing',
  extra: 'the schedule at its first step',
} as const;

/** A resumed run that is not the one that was stopped should not come as a surprise. */
function checkpointWarnings(key: string, { load_contents }: PpoConfig['critic']['checkpoint']): string[] {
  const has = (part: keyof typeof AFRESH): boolean =>
    load_contents.includes(part) || (part === 'model' && load_contents.includes('hf_model'));
  const missing = (Object.keys(AFRESH) as (keyof typeof AFRESH)[]).filter((part) => !has(part));
  if (missing.length === 0) return [];
  return [`${key}.load_contents: a resumed run starts with ${missing.map((part) => AFRESH[part]).join(' and ')}`];
}

function checkSequenceParallel(config: PpoConfig, { problems }: CheckResult): void {
  const { actor, ref, model } = config.actor_rollout_ref;
  const spread = [actor.ulysses_sequence_parallel_size, usesReference(config) ? ref.ulysses_sequence_parallel_size : 1];
  if (Math.max(...spread) > 1 && !(model.use_remove_padding && actor.use_remove_padding)) {
    problems.push({
      path: 'actor_rollout_ref.actor.ulysses_sequence_parallel_size',
      message: 'spreading a sequence over devices needs actor_rollout_ref.model.use_remove_padding=true',
    });
  }
  if (
    usesCritic(config) &&
    config.critic.ulysses_sequence_parallel_size > 1 &&
    !config.critic.model.use_remove_padding
  ) {
    problems.push({
      path: 'critic.ulysses_sequence_parallel_size',
      message: 'spreading a sequence over devices needs critic.model.use_remove_padding=true',
    });
  }
}

export function checkSft(config: SftConfig): CheckResult {
  const { data } = config;
  const worldSize = worldSizeOf(config);
  // The default size per device gives way to a global one, as in verl.
  const perGpu = data.micro_batch_size === null ? data.micro_batch_size_per_gpu : null;
  const perRank = data.train_batch_size / worldSize;
  const problems = microProblems(
    'data',
    'micro_batch_size',
    'use_dynamic_bsz',
    { global: data.micro_batch_size, perGpu, dynamic: data.use_dynamic_bsz },
    worldSize,
  );
  if (data.train_batch_size % worldSize !== 0) {
    problems.push({
      path: 'data.train_batch_size',
      message: `${data.train_batch_size} examples do not divide among ${worldSize} ranks`,
    });
  } else if (!data.use_dynamic_bsz && perGpu !== null && perRank > perGpu && perRank % perGpu !== 0) {
    problems.push({
      path: 'data.micro_batch_size_per_gpu',
      message: `${perGpu} examples do not divide the ${perRank} that a rank has per optimiser step; give a number that does, or data.use_dynamic_bsz=true`,
    });
  }
  if (data.use_dynamic_bsz && data.max_token_len_per_gpu < data.max_length) {
    problems.push({
      path: 'data.max_token_len_per_gpu',
      message: `${data.max_token_len_per_gpu} tokens cannot hold one example of up to ${data.max_length} tokens`,
    });
  }
  return { problems, warnings: [] };
}
