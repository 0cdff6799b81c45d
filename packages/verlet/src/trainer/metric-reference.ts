/** What the metrics of a run mean. The reference page is made from this table; a test holds real runs to it. */

export interface MetricEntry {
  /** `{a,b}` stands for either, `NAME` in capitals for any words. */
  name: string;
  meaning: string;
}

export interface MetricSection {
  title: string;
  entries: readonly MetricEntry[];
}

const spread = '/{mean,max,min}';

const section = (title: string, entries: Record<string, string>): MetricSection => ({
  title,
  entries: Object.entries(entries).map(([name, meaning]) => ({ name, meaning })),
});

export const METRIC_SECTIONS: readonly MetricSection[] = [
  section('Scores', {
    [`critic/score${spread}`]: 'Sum of the token-level scores of a response: what the reward said. Watch the mean.',
    [`critic/rewards${spread}`]: 'The same after the KL penalty, where algorithm.use_kl_in_reward is on.',
    [`critic/advantages${spread}`]: 'Per sampled token: what the update is weighted with.',
    [`critic/returns${spread}`]: 'Per sampled token: what a critic learns to predict.',
    'reward/NAME': 'Mean over the batch of a number that the reward returned beside the score, or of a reward channel.',
    'reward_channel/SOURCE/NAME':
      'The same channels by data source, and whether a turn or the whole trajectory earned them.',
    'reward/error_count': 'Rewards of this step that could not be computed; each scored error_score (0).',
    'reward/error_rate': 'The same as a share of all.',
  }),
  section('Fine-tuning (verlet sft)', {
    '{train,val}/loss': 'Mean loss of a learned token (sft) or of a pair (dpo, reward_model).',
    '{train,val}/accuracy': 'Share of pairs whose better answer is preferred or scored higher.',
    '{train,val}/rewards/{chosen,rejected}':
      'dpo: beta times how much likelier the answer became than under the reference.',
    '{train,val}/rewards/margin': 'Their difference.',
    '{train,val}/score/{chosen,rejected}': 'reward_model: mean score of the better and of the worse answers.',
    'train/{grad_norm,lr}': 'Norm of the gradient before clipping; learning rate of the step.',
    'train/{tokens,tokens_per_second}': 'Tokens of the step, padding not counted; the same by its time.',
    'train/epoch': 'Passes over the rows that are behind.',
  }),
  section('Distillation', {
    'distillation/kl': 'Mean over the sampled tokens of log student - log teacher: how far the student still is.',
    'distillation/loss': "The divergence over the teacher's likeliest tokens, with a top-k loss_mode.",
    'distillation/{teacher,student}_mass':
      'What those tokens hold of either distribution; near 1, topk is large enough.',
  }),
  section('Policy', {
    'actor/pg_loss': 'Policy loss. Its sign and size say little; look at score, entropy and KL.',
    'actor/entropy':
      'Mean entropy of the sampling distribution over sampled tokens, in nats. Near 0: it no longer explores.',
    'actor/entropy_loss': 'The same as the loss sees it, where actor.entropy_coeff is set.',
    'actor/ppo_kl': 'Mean of old minus new log-probability within the update.',
    'actor/pg_clipfrac': 'Share of tokens whose ratio was clipped.',
    'actor/pg_clipfrac_lower': 'Share of tokens held by the lower bound of the dual clip.',
    'actor/kl_loss': 'KL to the reference policy in the loss (actor.use_kl_loss).',
    'actor/kl_coef': 'Its weight.',
    'actor/reward_kl_penalty': 'KL to the reference policy in the reward (algorithm.use_kl_in_reward).',
    'actor/reward_kl_penalty_coeff': 'Its weight, which an adaptive controller moves.',
    'actor/grad_norm': 'Norm of the gradient before clipping.',
    'actor/lr': 'Learning rate of this step.',
  }),
  section('Critic', {
    'critic/vf_loss': 'Value loss.',
    'critic/vf_clipfrac': 'Share of values that were clipped.',
    'critic/vpred_mean': 'Mean predicted value in the update.',
    [`critic/values${spread}`]: 'Values before the update.',
    'critic/vf_explained_var':
      'How much of the variance of returns the critic explains; 1 is all, below 0 is worse than a constant.',
    'critic/grad_norm': 'Norm of its gradient before clipping.',
    'critic/lr': 'Its learning rate.',
  }),
  section('Lengths', {
    [`response_length${spread}`]: 'Response tokens, tool results included.',
    'response_length/clip_ratio': 'Share of responses as long as data.max_response_length allows.',
    [`response_length_non_aborted${spread}`]: 'The same without responses that were broken off.',
    'response_length_non_aborted/clip_ratio': 'Share of those that hit the limit.',
    'response/aborted_ratio': 'Share of responses with no token at all.',
    [`prompt_length${spread}`]: 'Prompt tokens.',
    'prompt_length/clip_ratio': 'Share of prompts as long as data.max_prompt_length allows.',
    [`num_turns${spread}`]: 'Turns of a conversation, the prompt included.',
  }),
  section('Sampler against trainer', {
    'training/rollout_probs_diff_valid': '1 when both sides were there to compare.',
    'training/rollout_probs_diff_{max,mean,std}':
      'Difference of the probability of a sampled token between sampler and trainer, same weights. Rounding only: large values mean that the two disagree.',
    'training/rollout_actor_probs_pearson_corr': 'Correlation of the two; 1 is right.',
    'rollout_corr/NAME':
      'Importance weights and rejection (algorithm.rollout_correction): divergences (kl, k3_kl, chi2), perplexities, weights (rollout_is_*), what was masked out (rollout_rs_*).',
  }),
  section('Agents', {
    'agent/trajectories': 'Trajectories of this step.',
    'agent/end_reason/NAME':
      'How many ended because of that: stop, response_length, max_assistant_turns, timeout, error ...',
    'agent/tool_status/NAME': 'Tool calls by outcome: ok, error, timeout, malformed ...',
    'agent/tool_responses_truncated': 'Tool results that were cut to max_tool_response_length.',
    [`agent/tool_calls_per_trajectory${spread}`]: 'Tool calls of a trajectory.',
    'agent/{reward_errors,programs,program_errors,programs_without_calls}':
      'Programs in training: how many ran, failed, never called the policy, or gave no usable reward.',
    'agent/NAME':
      'Numbers that an agent loop or task reports itself, by agent; with several agents also trajectories, num_turns and end_reason of each.',
    [`tool_call_counts${spread}`]: "The same under verl's name.",
    [`timing_s/agent_loop/{generate_sequences,tool_calls,compute_score}${spread}`]:
      'Seconds of a trajectory spent there.',
    'timing_s/agent_loop/slowest/{generate_sequences,tool_calls,compute_score,prompt_length,response_length}':
      'The trajectory for which all others waited: where its seconds went, and how long it was.',
    'state_tokens/{total,coverage}':
      'Response tokens of all trajectories, and the share that the model itself sampled; the rest is context (tool and search results, turns of users).',
  }),
  section('Validation', {
    'val-core/SOURCE/VARIABLE/NAME':
      'The main variable (acc, else reward) of a data source: mean@N, and for N > 1 best@N and maj@N with `/mean` and `/std` over bootstrap draws.',
    'val-aux/SOURCE/VARIABLE/NAME': 'Everything else that the reward returned, in the same way.',
    [`val-aux/num_turns${spread}`]: 'Turns of validation conversations.',
  }),
  section('Run', {
    'training/{global_step,epoch}': 'Where the run is.',
    'training/filter_groups/evicted_samples':
      'Responses of prompts that taught nothing (all scores alike) and were replaced.',
    'train/num_gen_batches': 'Batches sampled until enough prompts taught something (algorithm.filter_groups).',
    'training/filter_groups/discarded_surplus_samples': 'Responses of good prompts beyond what the batch takes.',
    'timing_s/NAME':
      'Seconds: gen, reward, old_log_prob, ref, values, adv, update_critic, update_actor (update_weights within), dump_rollout_generations, testing, save_checkpoint; step is the sum without the last three.',
    'timing_per_token_ms/NAME': 'The same per token.',
    'perf/total_num_tokens': 'Prompt and response tokens of the step.',
    'perf/shared_prompt_tokens':
      'Prompt tokens of a mini-batch (on one rank) that the update did not compute, because another row of the micro-batch has the same prompt (actor_rollout_ref.model.share_prompts).',
    'perf/recorded_tokens':
      'Tokens of a mini-batch (on one rank) whose forward pass the update did not make, because sampling had made it with the same weights (actor_rollout_ref.rollout.keep_activations_gb).',
    'perf/time_per_step': 'Seconds of the step.',
    'perf/throughput': 'Tokens per second and rank.',
    'perf/mfu/{actor,critic}':
      "Share of the device's arithmetic that the update used: six operations per parameter in a matrix product and token, and causal attention, over the peak of the device (its data sheet; of CPUs and unknown GPUs the best of a few matrix products, measured once when the run starts: on a busy machine that is too low, and the share too high). verl counts attention as if it were not causal, and embeddings.",
    'perf/mfu/actor_infer': 'The same of the pass that computes old log-probabilities, where there is one.',
    'perf/{max_memory_allocated_gb,max_memory_reserved_gb}': 'The most that a rank held of its GPU.',
    'perf/cpu_memory_used_gb': 'Resident memory of the controller.',
    'perf/NAME': 'Further measures of devices where there are some.',
    'variance_proxy/{proxy1_signal_strength,proxy2_total_power,proxy3_pure_noise,expected_a_squared,expected_w}':
      'How noisy the gradient is, told from forward passes; with estimators that keep the sum of squared probabilities.',
    'global_seqlen/NAME': 'Tokens per rank, before and after balancing.',
    'guard/constant_reward_groups': 'Share of groups whose samples all got the same score: they teach nothing.',
    'guard/repetition': 'Share of 4-grams in the responses that repeat earlier ones.',
    'guard/active_warnings': 'Warnings that hold at this step; each was printed with advice.',
  }),
];

/** An entry's name as a pattern for real names. */
export function metricPattern(name: string): RegExp {
  const source = name
    .replace(/[.*+?^$()|[\]\\]/g, '\\$&')
    .replace(/\{([^}]*)\}/g, (_, choices: string) => `(?:${choices.replaceAll(',', '|')})`)
    .replace(/\b[A-Z]+\b/g, '.+');
  return new RegExp(`^${source}$`);
}

/** The entry that explains a metric; exact names go before those with placeholders. */
export function explainMetric(name: string): MetricEntry | undefined {
  const entries = METRIC_SECTIONS.flatMap((part) => part.entries);
  const matching = entries.filter((entry) => metricPattern(entry.name).test(name));
  return matching.find((entry) => !/\b[A-Z]+\b/.test(entry.name)) ?? matching[0];
}

export function renderMetricReference(): string {
  const parts = METRIC_SECTIONS.map(({ title, entries }) => {
    const rows = entries.map(({ name, meaning }) => `| \`${name}\` | ${meaning} |`);
    return [`## ${title}`, '', '| metric | meaning |', '| --- | --- |', ...rows].join('\n');
  });
  return [
    '# Metrics',
    '',
    'This page is generated by `node scripts/generate-metrics-reference.mjs`; a test holds it up to date and holds the metrics of real',
    "runs to it. Names are verl's. They are in `metrics.jsonl` of the run folder, and wherever `trainer.logger` sends them.",
    'Words in capitals stand for any name.',
    '',
    parts.join('\n\n'),
    '',
  ].join('\n');
}
