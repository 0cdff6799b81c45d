/** From the configuration to a reward loop: which function scores, which manager calls it, and what it gets to see. */
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
import { scorePolicy } from './policy-scorer.js';
import type { ActorGroup } from './ppo.js';
import { RewardLoop, rewardNeeds } from './reward-loop.js';

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
    limits: { memoryMb: memory_limit_mb },
    ...(url ? { level: 'remote', remote: { url, maxConcurrent: max_concurrent } } : {}),
  });
  const scorer = await openScorer(config, context, options);
  const manager = createRewardManager(managerName(config, scorer), scorer, managerOptions(config, scorer));
  const { reward_mode, channel_weights } = config.reward_model;
  const loop = new RewardLoop(manager, decode, rewardNeeds(scorer.needs), {
    mode: reward_mode,
    channelWeights: channel_weights as Record<string, number>,
    scoreAll: options.reward !== undefined || Boolean(config.custom_reward_function.path),
  });
  return { loop, manager };
}

async function openScorer(config: PpoConfig, context: RewardContext, options: RewardSetupOptions): Promise<Scorer> {
  const { reward, rewardNeeds: needs } = options;
  if (reward) return createScorer({ type: 'sequential', compute: reward, needs, context });
  const custom = config.custom_reward_function;
  const own = custom.path ? await loadRewardFunction(custom as never, {}, context) : null;
  if (config.reward_model.enable) return openRewardModel(config, own);
  return own ?? builtInScorer(config);
}

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

/** A learned reward in this process; with a reward function of one's own beside it, both count. */
async function openRewardModel(config: PpoConfig, own: Scorer | null): Promise<Scorer> {
  const { model: settings, forward_max_token_len_per_gpu: maxBatchedTokens } = config.reward_model;
  const { device: wanted } = config.trainer;
  const onGpu = wanted === 'auto' ? isCudaAvailable() : wanted.startsWith('cuda');
  const model = await loadRewardModel(await resolveModel(settings.path!), {
    device: onGpu ? (wanted.includes(':') ? wanted : 'cuda:0') : 'cpu',
    dtype: onGpu ? 'bfloat16' : 'float32',
    maxBatchedTokens,
  });
  const learned = createRewardModelScorer(model);
  return createScorer({
    type: 'batch',
    needs: own?.needs,
    async compute(inputs) {
      const fromModel = await learned.scoreMany(inputs);
      if (!own) return fromModel;
      const fromFunction = await own.scoreMany(inputs);
      return fromFunction.map((result, k) => {
        const fields = (typeof result === 'object' ? result : { score: result }) as Record<string, unknown>;
        const function_score = Number(fields.score ?? fields.overall);
        const { rm_score } = fromModel[k] as unknown as { rm_score: number };
        return { ...fields, function_score, rm_score, score: function_score + rm_score };
      });
    },
    async close() {
      model.dispose();
      await own?.close();
    },
  });
}

/** A function for batches is called as one, whatever the default says. */
function managerName(config: PpoConfig, scorer: Scorer): string {
  const name = config.reward_model.reward_manager ?? 'naive';
  return scorer.type === 'batch' && name === 'naive' ? 'batch' : name;
}

function managerOptions(config: PpoConfig, scorer: Scorer): Record<string, unknown> {
  const { reward_kwargs, timeout, max_concurrent, max_rpm, max_tpm, estimated_tokens_per_request } =
    config.reward_model;
  const given = { ...reward_kwargs, max_concurrent, max_rpm, max_tpm, estimated_tokens_per_request };
  return {
    ...Object.fromEntries(Object.entries(given).filter(([, value]) => value !== null)),
    max_resp_len: reward_kwargs.max_resp_len ?? config.data.max_response_length,
    timeout_s: timeout,
    total_timeout_s: timeout,
    fields: scorer.needs,
  };
}
