/** What a run reports: verl's names, numbers that are right over all rounds and ranks of a step, dumps under verl's keys. */
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { beforeAll, expect, it } from 'vitest';
import { readModelConfig } from '../../src/models/config.js';
import { explainMetric } from '../../src/trainer/metric-reference.js';
import { train } from '../../src/trainer/train.js';
import { forwardFlops, peakFlops, promisedFlops, raisedPeak } from '../../src/workers/utilization.js';
import { countsDigits, type TinySetup, tinySetup } from './tiny.js';

let tiny: TinySetup;
beforeAll(async () => {
  tiny = await tinySetup();
});

const spread = (...names: string[]): string[] =>
  names.flatMap((name) => ['mean', 'max', 'min'].map((kind) => `${name}/${kind}`));
const below = (prefix: string, ...names: string[]): string[] => names.map((name) => `${prefix}/${name}`);

/** Of every group of verl's metrics those that a run in one process on the CPU can have. */
const VERL = {
  critic: [
    ...spread('critic/score', 'critic/rewards', 'critic/advantages', 'critic/returns', 'critic/values'),
    ...below('critic', 'vf_explained_var', 'vf_loss', 'vf_clipfrac', 'vpred_mean', 'grad_norm', 'lr'),
  ],
  actor: [
    ...below('actor', 'pg_loss', 'kl_loss', 'kl_coef', 'pg_clipfrac', 'pg_clipfrac_lower', 'ppo_kl', 'entropy'),
    ...below('actor', 'entropy_loss', 'grad_norm', 'lr', 'reward_kl_penalty', 'reward_kl_penalty_coeff'),
  ],
  lengths: [
    ...spread('response_length', 'prompt_length', 'response_length_non_aborted', 'num_turns', 'tool_call_counts'),
    'response_length/clip_ratio',
    'prompt_length/clip_ratio',
    'response_length_non_aborted/clip_ratio',
    'response/aborted_ratio',
  ],
  timing: [
    ...below('timing_s', 'step', 'gen', 'gen_max', 'reward', 'old_log_prob', 'ref', 'values', 'adv', 'update_critic'),
    ...below('timing_s', 'update_actor', 'update_weights', 'testing', 'save_checkpoint', 'dump_rollout_generations'),
    ...spread(...below('timing_s/agent_loop', 'generate_sequences', 'tool_calls', 'compute_score')),
    ...below('timing_s/agent_loop/slowest', 'generate_sequences', 'tool_calls', 'prompt_length', 'response_length'),
    ...below('timing_per_token_ms', 'gen', 'ref', 'values', 'adv', 'update_critic', 'update_actor'),
  ],
  perf: below(
    'perf',
    'total_num_tokens',
    'time_per_step',
    'throughput',
    'mfu/actor',
    'mfu/critic',
    'mfu/actor_infer',
  ).concat('perf/cpu_memory_used_gb'),
  training: [
    ...below('training', 'global_step', 'epoch', 'rollout_actor_probs_pearson_corr'),
    ...['valid', 'max', 'mean', 'std'].map((kind) => `training/rollout_probs_diff_${kind}`),
    ...below('training/filter_groups', 'evicted_samples', 'discarded_surplus_samples'),
    'train/num_gen_batches',
  ],
  variance: below('variance_proxy', 'proxy1_signal_strength', 'proxy2_total_power', 'proxy3_pure_noise').concat(
    below('variance_proxy', 'expected_a_squared', 'expected_w'),
  ),
  validation: ['val-core/openai/gsm8k/reward/mean@1', ...spread('val-aux/num_turns')],
};

async function namesOf(name: string, ...overrides: string[]): Promise<Record<string, number>> {
  const seen: Record<string, number> = {};
  const config = tiny.config(
    'trainer.total_training_steps=2',
    `trainer.default_local_dir=${tiny.folder}/${name}`,
    ...overrides,
  );
  const reward = ({ solution_str }: { solution_str: string }) => ({ score: countsDigits({ solution_str }), noise: 1 });
  await train({ config, reward, trackers: [{ name, log: (metrics) => void Object.assign(seen, metrics) }] });
  return seen;
}

it("reports every name of verl's that applies, and explains every name that it reports", async () => {
  const everything = await namesOf(
    'gae',
    'algorithm.adv_estimator=gae',
    'algorithm.use_kl_in_reward=true',
    'actor_rollout_ref.actor.use_kl_loss=true',
    'actor_rollout_ref.actor.entropy_coeff=0.01',
    'actor_rollout_ref.actor.ppo_mini_batch_size=4',
    'algorithm.filter_groups.enable=true',
    `data.val_files=${tiny.train}`,
    'trainer.test_freq=1',
    'trainer.save_freq=1',
    `trainer.rollout_data_dir=${tiny.folder}/rollouts`,
    `trainer.validation_data_dir=${tiny.folder}/validations`,
  );
  const seen = {
    ...(await namesOf('remax', 'algorithm.adv_estimator=remax')),
    ...(await namesOf(
      'baseline',
      'algorithm.adv_estimator=optimal_token_baseline',
      'actor_rollout_ref.actor.calculate_sum_pi_squared=true',
    )),
    ...everything,
  };
  const missing = Object.values(VERL).flatMap((names) => names.filter((name) => !(name in seen)));
  expect(missing).toEqual([]);
  expect(Object.keys(seen).filter((name) => !explainMetric(name))).toEqual([]);
  expect(Object.entries(seen).filter(([, value]) => !Number.isFinite(value))).toEqual([]);
  for (const role of ['actor', 'critic', 'actor_infer']) expect(seen[`perf/mfu/${role}`]).toBeGreaterThan(0);
});

it('an update that is its own first pass reports the same differences to the sampler', async () => {
  const single = await namesOf('single');
  for (const kind of ['valid', 'max', 'mean', 'std'])
    expect(single[`training/rollout_probs_diff_${kind}`], kind).toBeTypeOf('number');
  expect(single['training/rollout_actor_probs_pearson_corr']).toBeCloseTo(1, 4);
  expect(single['training/rollout_probs_diff_std']).toBeLessThan(1e-4);
});

it('calculate_entropy reports the entropy of passes that do not need it', async () => {
  const sampled = ['algorithm.rollout_correction.bypass_mode=true', 'actor_rollout_ref.actor.ppo_mini_batch_size=4'];
  expect(await namesOf('without', ...sampled)).not.toHaveProperty(['actor/entropy']);
  const asked = await namesOf('with', ...sampled, 'actor_rollout_ref.actor.calculate_entropy=true');
  expect(asked['actor/entropy']).toBeGreaterThan(0.5);
});

it('with group filtering, counts and token times are of all rounds', async () => {
  const config = tiny.config(
    'algorithm.filter_groups.enable=true',
    'algorithm.filter_groups.metric=useful',
    'data.shuffle=false',
    'trainer.total_training_steps=1',
    `trainer.default_local_dir=${tiny.folder}/rounds`,
  );
  // The first batch teaches nothing, half of the others something: the step takes three rounds of 32 rollouts.
  let calls = 0;
  const { metrics } = await train({
    config,
    reward: ({ extra_info }) => {
      const { index } = extra_info as { index: number };
      return { score: calls++, useful: index >= 8 && index % 2 === 0 ? calls : 0, round: Math.floor(index / 8) };
    },
  });
  expect(metrics['train/num_gen_batches']).toBe(3);
  expect(metrics['agent/trajectories']).toBe(96);
  expect(metrics['reward/round']).toBeCloseTo(1, 6);
  expect(metrics['training/filter_groups/evicted_samples']).toBe(64);
  const seconds = (metrics['timing_per_token_ms/gen']! / 1000) * metrics['state_tokens/total']!;
  expect(seconds).toBeCloseTo(metrics['timing_s/gen']!, 6);
  // What was learnt from is one batch.
  expect(metrics['perf/total_num_tokens']).toBeLessThan(metrics['state_tokens/total']!);
});

it("dumps rollouts and validations under verl's keys", () => {
  const lines = (folder: string, step: number): Record<string, unknown>[] => {
    const file = path.join(tiny.folder, folder, `${step}.jsonl`);
    expect(existsSync(file), file).toBe(true);
    return readFileSync(file, 'utf8')
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>);
  };
  const [rollout] = lines('rollouts', 1);
  const validations = lines('validations', 2);
  expect(validations).toHaveLength(64);
  for (const row of [rollout!, validations[0]!]) {
    expect(Object.keys(row)).toEqual(expect.arrayContaining(['input', 'output', 'gts', 'score', 'step', 'noise']));
    expect(row.input).toContain('=');
    expect(row.score).toBeTypeOf('number');
    expect(row.noise).toBe(1);
  }
  expect(validations[0]!.step).toBe(2);
  expect(validations.map(({ gts }) => gts)).toContain('12');
});

it('counts the operations of a model and knows what devices promise', () => {
  const config = readModelConfig({
    model_type: 'qwen2',
    architectures: ['Qwen2ForCausalLM'],
    vocab_size: 10,
    hidden_size: 4,
    intermediate_size: 8,
    num_hidden_layers: 2,
    num_attention_heads: 2,
    num_key_value_heads: 1,
    max_position_embeddings: 128,
    rms_norm_eps: 1e-6,
    tie_word_embeddings: true,
  });
  // Per layer q and o are 4x4, k and v 4x2, three products of the MLP 4x8; the head 4x10. Attention: 2 * 4 * length per token.
  const parameters = 2 * (16 + 16 + 8 + 8 + 96) + 40;
  expect(forwardFlops(config, [3, 5])).toBe(2 * parameters * 8 + 2 * 2 * 4 * (9 + 25));
  expect(forwardFlops(config, [3], 1)).toBe(2 * (parameters - 36) * 3 + 2 * 2 * 4 * 9);
  expect(promisedFlops('NVIDIA H200')).toBe(989e12);
  expect(promisedFlops('NVIDIA H20')).toBe(148e12);
  expect(promisedFlops('NVIDIA A100-SXM4-80GB')).toBe(312e12);
  expect(promisedFlops('NVIDIA L4')).toBe(121e12);
  expect(promisedFlops('Some other card')).toBeNull();
  expect(peakFlops('cpu')).toBeGreaterThan(1e8);
  const measured = peakFlops('cpu');
  expect(raisedPeak('cpu', measured / 2)).toBe(measured);
  expect(raisedPeak('cpu', measured * 2)).toBe(measured * 2);
  expect(peakFlops('cpu')).toBe(measured * 2);
});
