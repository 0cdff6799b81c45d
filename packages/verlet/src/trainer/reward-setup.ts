/** From the configuration to a reward loop: which function scores, which manager calls it, and what it gets to see. */
import { availableParallelism } from 'node:os';
import { isCudaAvailable } from '@verlet/torch';
import type { PpoConfig } from '../config/index.js';
import { resolveModel } from '../models/hub/index.js';
import { loadRewardModel } from '../models/reward-model.js';
import type { Tokenizer } from '../models/tokenizer/index.js';
import {
  configureSharedSandbox,
  createRewardManager,
  createRewardModelScorer,
  createScorer,
  defaultComputeScore,
  defaultScorer,
  loadRewardFunction,
  type RewardContext,
  type RewardFunction,
  type RewardManager,
  type Scorer,
  searchQaFormat,
} from '../rewards/index.js';
import { openJudge } from './judge-setup.js';
import { scorePolicy } from './policy-scorer.js';
import type { ActorGroup } from './ppo.js';
import { RewardLoop, rewardNeeds } from './reward-loop.js';
import { addScores, type RewardPart } from './reward-parts.js';

export interface RewardSetupOptions {
  /** Scores one sample; instead of `custom_reward_function`. */
  reward?: RewardFunction;
  /** What `reward` reads beyond the text: `log_probs`, `entropy`, `ref_log_prob`. A reward file exports `REWARD_NEEDS` instead. */
  rewardNeeds?: readonly string[];
}

export interface RewardSetup {
  loop: RewardLoop;
  manager: RewardManager;
}

/** `actor` is asked for when a reward first needs the policy: rewards are loaded before models, so that a bad file fails at once. */
export async function openReward(
  config: PpoConfig,
  tokenizer: Tokenizer,
  actor: () => Pick<ActorGroup, 'computeLogProb'>,
  options: RewardSetupOptions,
): Promise<RewardSetup> {
  const decode = (ids: ArrayLike<number>): string => tokenizer.decode(ids, { skipSpecialTokens: true });
  const context: RewardContext = {
    scorePolicy: (queries) => scorePolicy(actor(), queries, tokenizer.padTokenId ?? tokenizer.eosTokenId ?? 0),
    encodePrompt: (messages) => tokenizer.encodeChat(messages as never, { addGenerationPrompt: true }),
    decode,
  };
  const { url, max_concurrent, memory_limit_mb } = config.reward_model.sandbox_fusion;
  await configureSharedSandbox({
    size: workersOf(config),
    limits: { memoryMb: memory_limit_mb },
    ...(url ? { level: 'remote', remote: { url, maxConcurrent: max_concurrent } } : {}),
  });
  const scorer = await openScorer(config, context, options);
  const manager = createRewardManager(managerName(config, scorer), scorer, managerOptions(config, scorer));
  const { reward_mode, channel_weights, judge } = config.reward_model;
  const loop = new RewardLoop(manager, decode, rewardNeeds(scorer.needs), {
    mode: reward_mode,
    channelWeights: channel_weights as Record<string, number>,
    scoreAll: Boolean(options.reward || config.custom_reward_function.path || judge.base_url),
  });
  return { loop, manager };
}

async function openScorer(config: PpoConfig, context: RewardContext, options: RewardSetupOptions): Promise<Scorer> {
  const { reward, rewardNeeds: needs } = options;
  if (reward) return createScorer({ type: 'sequential', compute: reward, needs, context });
  const { custom_reward_function: custom, reward_model } = config;
  const python = { processes: workersOf(config), timeout_s: reward_model.timeout };
  const own = custom.path ? await loadRewardFunction(custom as never, python, context) : null;
  const parts: RewardPart[] = own ? [{ name: 'function_score', weight: 1, scorer: own }] : [];
  if (reward_model.enable) parts.push({ name: 'rm_score', weight: 1, scorer: await openRewardModel(config) });
  if (reward_model.judge.base_url) {
    const { weight } = reward_model.judge;
    parts.push({ name: 'judge_score', weight, scorer: await openJudge(reward_model.judge) });
  }
  return parts.length === 0 ? builtInScorer(config) : addScores(parts);
}

/** More than a core's worth of processes would only get in each other's way. */
const workersOf = (config: PpoConfig): number => Math.min(config.reward_model.num_workers, availableParallelism());

/** The score of the data source. Search-R1's scores of form, where one is set, grade its data sources by form too. */
function builtInScorer({ custom_reward_function: custom, reward_model }: PpoConfig): Scorer {
  const { structure_format_score, final_format_score, retrieval_score } = reward_model;
  const form = { structure_format_score, final_format_score, retrieval_score };
  if (Object.values(form).every((score) => score === 0)) return defaultScorer(custom.reward_kwargs);
  return createScorer({
    type: 'sequential',
    compute: (input, kwargs) =>
      input.data_source.startsWith('searchR1_')
        ? searchQaFormat(input, { ...form, ...kwargs })
        : defaultComputeScore(input, kwargs as never),
    options: custom.reward_kwargs,
  });
}

/** A learned reward in this process. */
async function openRewardModel(config: PpoConfig): Promise<Scorer> {
  const { model: settings, forward_max_token_len_per_gpu: maxBatchedTokens } = config.reward_model;
  const { device: wanted } = config.trainer;
  const onGpu = wanted === 'auto' ? isCudaAvailable() : wanted.startsWith('cuda');
  const model = await loadRewardModel(await resolveModel(settings.path!), {
    device: onGpu ? (wanted.includes(':') ? wanted : 'cuda:0') : 'cpu',
    dtype: onGpu ? 'bfloat16' : 'float32',
    maxBatchedTokens,
  });
  const learned = createRewardModelScorer(model);
  return { ...learned, close: async () => model.dispose() };
}

/** A function for batches is called as one, whatever the default says. */
function managerName(config: PpoConfig, scorer: Scorer): string {
  const name = config.reward_model.reward_manager ?? 'naive';
  return scorer.type === 'batch' && name === 'naive' ? 'batch' : name;
}

function managerOptions(config: PpoConfig, scorer: Scorer): Record<string, unknown> {
  const { reward_kwargs, timeout, max_concurrent, max_rpm, max_tpm, estimated_tokens_per_request } =
    config.reward_model;
  const given = {
    ...reward_kwargs,
    workers: workersOf(config),
    max_concurrent,
    max_rpm,
    max_tpm,
    estimated_tokens_per_request,
  };
  return {
    ...Object.fromEntries(Object.entries(given).filter(([, value]) => value !== null)),
    max_resp_len: reward_kwargs.max_resp_len ?? config.data.max_response_length,
    timeout_s: timeout,
    total_timeout_s: timeout,
    fields: scorer.needs,
  };
}
