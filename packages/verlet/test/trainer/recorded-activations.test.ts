/**
 * What sampling wrote down stands in for the forward passes of scoring and of the first update. It may change nothing but time:
 * every kind of run is made with it and without it, and must end the same.
 */
import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { manualSeed, noGrad, openSafetensors, scope, setThreads } from '@verlet/torch';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import type { Tool } from '../../src/agents/index.js';
import { writeParquet } from '../../src/data/index.js';
import { createCausalLM, Decoder, loadCausalLM, saveCausalLM } from '../../src/models/index.js';
import { ActivationTape } from '../../src/rollout/activation-tape.js';
import { EagerRunner } from '../../src/rollout/model-runner.js';
import { distill } from '../../src/trainer/distill/index.js';
import { type TrainOptions, train } from '../../src/trainer/train.js';
import { countsDigits, type TinySetup, tinySetup } from './tiny.js';

/** Two steps at this rate move weights by up to 2e-2. */
const rate = 1e-2;
/**
 * Sums in another order differ by about 1e-7 in a gradient. Adam divides by a gradient's own size: with its usual epsilon such
 * a difference in a gradient of nearly nothing would be a whole step, with this one it is at most a thousandth of one.
 */
const epsilon = 1e-3;
const tolerance = 2e-5;

const rollout = 'actor_rollout_ref.rollout';
const actor = 'actor_rollout_ref.actor';

let tiny: TinySetup;
let model: string;
beforeAll(async () => {
  tiny = await tinySetup();
  model = path.join(tiny.folder, 'lively');
  await liven(tiny.model, model);
});
afterAll(() => rmSync(tiny.folder, { recursive: true, force: true }));
afterEach(() => vi.restoreAllMocks());

/** With larger weights what a token is shown matters, and answers end early, late or not at all. */
async function liven(from: string, to: string): Promise<void> {
  cpSync(from, to, { recursive: true });
  const policy = await loadCausalLM(from);
  noGrad(() => {
    for (const [name, parameter] of policy.namedParameters()) if (!name.includes('norm')) parameter.mul_(7);
  });
  await saveCausalLM(policy, to, { source: from });
  policy.dispose();
  const file = path.join(to, 'config.json');
  const config = JSON.parse(readFileSync(file, 'utf8')) as Record<string, unknown>;
  writeFileSync(file, JSON.stringify({ ...config, max_position_embeddings: 1024 }));
}

type Metrics = Record<string, number>;

interface Run {
  steps: Metrics[];
  /** Each step's samples. */
  samples: unknown[][];
  weights: Map<string, Float32Array>;
  /** Passes that began from what was written down, scoring and update together. */
  resumed: number;
}

type Options = Omit<TrainOptions, 'config'> & { run?: typeof train };

let runs = 0;
async function make(gigabytes: number, overrides: readonly string[], { run = train, ...options }: Options = {}) {
  const folder = path.join(tiny.folder, `run-${runs++}`);
  const steps: Metrics[] = [];
  const resumed = vi.spyOn(ActivationTape.prototype, 'recorded');
  resumed.mockClear();
  const config = tiny.config(
    `actor_rollout_ref.model.path=${model}`,
    `${rollout}.keep_activations_gb=${gigabytes}`,
    `${actor}.optim.lr=${rate}`,
    `${actor}.optim.eps=${epsilon}`,
    'trainer.total_training_steps=2',
    'trainer.save_freq=2',
    'trainer.device=cpu',
    `trainer.rollout_data_dir=${folder}/rollouts`,
    `trainer.default_local_dir=${folder}`,
    ...overrides,
  );
  const tracker = { name: 'steps', log: (metrics: Metrics, step: number) => void (step && steps.push({ ...metrics })) };
  await run({ config, reward: countsDigits, ...options, trackers: [tracker] });
  const samples = steps.map((_, k) => samplesIn(path.join(folder, 'rollouts', `${k + 1}.jsonl`)));
  return { steps, samples, weights: weightsOf(folder, steps.length), resumed: resumed.mock.calls.length } as Run;
}

function samplesIn(file: string): unknown[] {
  const lines = readFileSync(file, 'utf8').trimEnd().split('\n');
  return lines.map((line) => {
    const { uid, response_ids, response_mask, score } = JSON.parse(line) as Record<string, unknown>;
    return { uid, response_ids, response_mask, score };
  });
}

function weightsOf(folder: string, step: number): Map<string, Float32Array> {
  return readWeights(path.join(folder, `global_step_${step}`, 'actor', 'huggingface'));
}

function readWeights(folder: string): Map<string, Float32Array> {
  using reader = openSafetensors(folder);
  return new Map(reader.names().map((name) => [name, scope(() => reader.tensor(name).toFloat32Array())]));
}

function largestDifference(a: Run['weights'], b: Run['weights']): number {
  let largest = 0;
  for (const [name, values] of a)
    for (const [k, value] of values.entries()) largest = Math.max(largest, Math.abs(value - b.get(name)![k]!));
  return largest;
}

const isAboutTime = (name: string): boolean => /^(perf|timing_s|timing_per_token_ms)\//.test(name);

function expectSameMetrics(got: Metrics, wanted: Metrics): void {
  const told = (metrics: Metrics) => Object.keys(metrics).filter((name) => !isAboutTime(name));
  expect(told(got).sort()).toEqual(told(wanted).sort());
  for (const name of told(wanted)) {
    const [a, b] = [got[name]!, wanted[name]!];
    expect(Math.abs(a - b), `${name}: ${a} and ${b}`).toBeLessThanOrEqual(1e-4 * Math.max(Math.abs(b), 0.1));
  }
}

function expectSame(got: Run, wanted: Run): void {
  expect(got.steps).toHaveLength(wanted.steps.length);
  expect(got.samples).toEqual(wanted.samples);
  for (const [k, step] of wanted.steps.entries()) expectSameMetrics(got.steps[k]!, step);
  expect(largestDifference(got.weights, wanted.weights)).toBeLessThan(tolerance);
}

/** Makes the run both ways and compares. */
async function compare(overrides: readonly string[], options: Options = {}, gigabytes = 2) {
  const kept = await make(gigabytes, overrides, options);
  const plain = await make(0, overrides, options);
  expect(plain.resumed).toBe(0);
  expectSame(kept, plain);
  for (const step of plain.steps) expect(step['perf/recorded_tokens'] ?? 0).toBe(0);
  return { kept, plain };
}

/** @param passes that began from what was written down, in each step: those of scoring and of the update */
function expectResumed(passes: number, { steps, resumed }: Run): void {
  expect(resumed).toBe(passes * steps.length);
  for (const step of steps) {
    for (const name of ['perf/mfu/actor', 'perf/mfu/actor_infer']) expect(step[name] ?? 0).toBeGreaterThanOrEqual(0);
    if (passes > 0) expect(step['perf/recorded_tokens']).toBeGreaterThan(0);
    else expect(step['perf/recorded_tokens'] ?? 0).toBe(0);
  }
}

const minis = [`${actor}.ppo_mini_batch_size=4`];
const kinds: [name: string, passes: number, overrides: string[], options?: Options][] = [
  ['every prompt by itself', 1, ['actor_rollout_ref.model.share_prompts=false']],
  ['micro-batches of eight', 4, [`${actor}.ppo_micro_batch_size_per_gpu=8`, `${actor}.use_dynamic_bsz=false`]],
  ['another temperature', 1, [`${rollout}.temperature=0.7`, `${rollout}.top_p=0.9`, `${rollout}.min_p=0.02`]],
  ['one answer a prompt', 1, [`${rollout}.n=1`, 'algorithm.adv_estimator=reinforce_plus_plus']],
  ['sequences that come and go', 1, [`${rollout}.max_num_seqs=5`, `${rollout}.max_num_batched_tokens=16`]],
  ['short answers that come and go', 1, [`${rollout}.max_num_seqs=3`, `${rollout}.n=5`, 'data.max_response_length=2']],
  ['long answers that come and go', 1, [`${rollout}.max_num_seqs=7`, 'data.max_response_length=21']],
  ['answers of one token', 1, [`${rollout}.max_num_seqs=20`, `${rollout}.n=2`, 'data.max_response_length=1']],
  ['no prefix cache', 1, [`${rollout}.enable_prefix_caching=false`]],
  ['penalties, so one token at a time', 1, [`${rollout}.repetition_penalty=1.3`]],
  ['ends ignored', 1, [`${rollout}.ignore_eos=true`]],
  ['the cache kept', 1, [`${rollout}.free_cache_engine=false`]],
  ['two mini-batches', 2, minis],
  ['two mini-batches, twice', 2, [...minis, `${actor}.ppo_epochs=2`, `${actor}.shuffle=true`]],
  ['a critic', 1, ['algorithm.adv_estimator=gae', 'critic.optim.eps=1e-3']],
  ['a reference', 2, [`${actor}.use_kl_loss=true`, 'algorithm.use_kl_in_reward=true', `${actor}.entropy_coeff=0.01`]],
  ['sampler corrected', 2, ['algorithm.rollout_correction.rollout_is=token']],
  [
    'a baseline of every token',
    2,
    ['algorithm.adv_estimator=optimal_token_baseline', `${actor}.calculate_sum_pi_squared=true`],
  ],
  ['greedy baselines', 1, ['algorithm.adv_estimator=remax']],
  ['rollouts drawn again', 1, ['algorithm.use_pf_ppo=true']],
  ['an adapter', 0, ['actor_rollout_ref.model.lora_rank=4', `${actor}.use_kl_loss=true`]],
  ['groups left out', 1, ['algorithm.filter_groups.enable=true', 'algorithm.filter_groups.metric=seq_reward']],
  ['scores before the reward', 2, [], { reward: countsDigits, rewardNeeds: ['log_probs', 'entropy'] }],
];

describe('kept activations change nothing but time', () => {
  it('GRPO on fresh samples: every token but the last of each answer is found', async () => {
    const { kept } = await compare([]);
    expectResumed(1, kept);
    expect(largestDifference(kept.weights, readWeights(model))).toBeGreaterThan(100 * tolerance);
  });

  it.each(kinds)('%s', async (_, passes, overrides, options) => {
    const { kept } = await compare(overrides, options);
    expectResumed(passes, kept);
  });

  it('three threads, with a fallback where one would do most of the work', async () => {
    setThreads(3);
    try {
      expectResumed(1, (await compare([])).kept);
      const one = [`${actor}.ppo_micro_batch_size_per_gpu=1`, `${actor}.use_dynamic_bsz=false`];
      expectResumed(0, (await compare(one)).kept);
    } finally {
      setThreads(1);
    }
  });

  it('nor do passes in one call and several tokens at a time', async () => {
    const overrides = [...minis, 'algorithm.adv_estimator=gae', 'critic.optim.eps=1e-3', 'data.max_response_length=21'];
    const fast = await make(2, overrides);
    const inOneCall = Decoder.prototype.forwardForTraining;
    const forward = vi.spyOn(Decoder.prototype, 'forwardForTraining');
    forward.mockImplementation(function (this: Decoder, ids, context, options) {
      return inOneCall.call(this, ids, context, { ...options, whole: false });
    });
    const canDecodeMany = vi.spyOn(EagerRunner.prototype, 'canDecodeMany').mockReturnValue(false);
    expectSame(fast, await make(0, overrides));
    expect(forward).toHaveBeenCalled();
    expect(canDecodeMany).toHaveBeenCalled();
  });

  it('a model that norms queries and keys', async () => {
    const folder = path.join(tiny.folder, 'normed');
    cpSync(model, folder, { recursive: true });
    const config = JSON.parse(readFileSync(path.join(model, 'config.json'), 'utf8')) as Record<string, unknown>;
    manualSeed(3);
    const policy = createCausalLM({
      ...config,
      model_type: 'qwen3',
      architectures: ['Qwen3ForCausalLM'],
      head_dim: 16,
      attention_bias: false,
      initializer_range: 0.15,
    });
    await saveCausalLM(policy, folder);
    policy.dispose();
    const { kept } = await compare([`actor_rollout_ref.model.path=${folder}`, ...minis]);
    expectResumed(2, kept);
  });

  it('a tape that is full before the batch is sampled', async () => {
    const part = [
      `${rollout}.max_num_seqs=8`,
      `${actor}.ppo_micro_batch_size_per_gpu=4`,
      `${actor}.use_dynamic_bsz=false`,
    ];
    const { kept } = await compare(part, {}, 0.0005);
    expect(kept.resumed).toBeGreaterThan(1);
    expect(kept.resumed).toBeLessThan(2 * 8);
    expectResumed(0, await make(0.0005, []));
    expectResumed(0, await make(1e-9, []));
  });

  it('prompts too long for the sampler to write down', async () => {
    const train = path.join(tiny.folder, 'long.parquet');
    await writeParquet(
      train,
      Array.from({ length: 4 }, (_, k) => ({
        data_source: 'openai/gsm8k',
        prompt: [{ role: 'user', content: `${k} + `.repeat(k % 2 ? 200 : 10) }],
        reward_model: { style: 'rule', ground_truth: '1' },
      })),
    );
    const long = [`data.train_files=${train}`, 'data.train_batch_size=4', 'data.max_prompt_length=700'];
    expectResumed(0, (await compare([...long, ...minis])).kept);
    // Trained by themselves, the short ones are found, whatever was sampled beside them.
    const apart = [`${actor}.ppo_micro_batch_size_per_gpu=4`, `${actor}.use_dynamic_bsz=false`];
    expect((await compare([...long, ...minis, ...apart])).kept.resumed).toBe(2 * 2);
  });

  it.each([true, false])('validation before and between (cache freed: %s)', async (isFreed) => {
    const { kept } = await compare([
      `data.val_files=${tiny.train}`,
      'trainer.val_before_train=true',
      'trainer.test_freq=1',
      `${rollout}.free_cache_engine=${isFreed}`,
    ]);
    expectResumed(1, kept);
  });

  it('steps that teach the critic alone', async () => {
    const warmUp = ['algorithm.adv_estimator=gae', 'critic.optim.eps=1e-3', 'trainer.critic_warmup=1'];
    const { kept } = await compare(warmUp);
    expect(kept.resumed).toBe(1);
    expect(kept.steps[1]!['perf/recorded_tokens']).toBeGreaterThan(0);
  });
});

describe('kept activations of agents', () => {
  const loops = `export async function turns(session) {
    for (let k = 0; ; k++) {
      await session.generate({ maxTokens: 5 });
      if (k === 1 && session.row.sampleIndex === 0) return;
      const { response } = await session.callTool({ name: 'look', arguments: {} });
      session.append([{ role: 'tool', content: response.repeat(1 + session.row.sampleIndex) }]);
      if (k === 1 && session.row.sampleIndex === 1) return;
    }
  }`;
  const look: Tool = {
    name: 'look',
    schema: { type: 'function', function: { name: 'look', description: 'look', parameters: { type: 'object' } } },
    execute: () => '7 + 1 ',
  };

  async function agentRows(length: number): Promise<string[]> {
    writeFileSync(path.join(tiny.folder, 'turns.mjs'), loops);
    const file = path.join(tiny.folder, 'turns.yaml');
    writeFileSync(file, `- { name: turns, _target_: '${tiny.folder}/turns.mjs#turns' }`);
    const train = path.join(tiny.folder, 'turns.parquet');
    await writeParquet(
      train,
      Array.from({ length: 8 }, (_, k) => ({
        data_source: 'openai/gsm8k',
        prompt: [{ role: 'user', content: `${k} + 1 = ?` }],
        reward_model: { style: 'rule', ground_truth: '1' },
        agent_name: 'turns',
      })),
    );
    return [
      `data.train_files=${train}`,
      'data.max_prompt_length=64',
      `data.max_response_length=${length}`,
      `${rollout}.agent.agent_loop_config_path=${file}`,
      `${rollout}.multi_turn.enable=true`,
    ];
  }

  it.each([12, 23, 64])('several turns with a tool, %i tokens at most', async (length) => {
    const { kept } = await compare([...(await agentRows(length)), ...minis], { tools: [look] });
    expectResumed(2, kept);
    for (const step of kept.steps) expect(step['agent/end_reason/response_length']).toBeGreaterThan(0);
  });

  it('a program that compacts its history', async () => {
    const agent: TrainOptions['agent'] = async (row, { session }) => {
      await session.chat({ messages: row.prompt });
      await session.chat({ messages: [{ role: 'user', content: '2 + 2 = ?' }] });
      return row.sampleIndex % 2;
    };
    const { kept } = await compare(['data.max_response_length=12'], { agent, reward: undefined });
    expectResumed(1, kept);
  });
});

describe('kept activations of other runs', () => {
  it('two ranks, which may train on what the other one sampled', async () => {
    const { kept } = await compare(['trainer.n_gpus_per_node=2', 'trainer.launcher=process', ...minis]);
    for (const step of kept.steps) expect(step['perf/recorded_tokens']).toBeGreaterThan(0);
  });

  it('distillation over the likeliest tokens', async () => {
    const loss = 'distillation.distillation_loss';
    const { kept } = await compare(
      [
        'distillation.enabled=true',
        `+distillation.teacher_models.big.model_path=${tiny.model}`,
        `${loss}.loss_mode=forward_kl_topk`,
        `${loss}.topk=8`,
      ],
      { run: distill },
    );
    expectResumed(1, kept);
  });

  it('rollouts that were stored', async () => {
    const stored = ['skip.rollout.enable=true', `skip.rollout.dump_dir=${tiny.folder}/stored`];
    const sampled = await make(2, stored);
    const read = await make(2, stored);
    expectResumed(1, sampled);
    expectResumed(0, read);
    expect(read.samples).toEqual(sampled.samples);
    expect(largestDifference(read.weights, sampled.weights)).toBeLessThan(tolerance);
    // Stored in the first step alone, the second is sampled after an update that nothing was written down for.
    const mixed = await make(2, [...stored, 'skip.rollout.steps=[1]']);
    expect(mixed.steps.map((step) => step['perf/recorded_tokens']! > 0)).toEqual([false, true]);
    expect(largestDifference(mixed.weights, sampled.weights)).toBeLessThan(tolerance);
  });

  it.each([
    ['the cache freed', []],
    ['the cache kept', [`${rollout}.free_cache_engine=false`]],
  ])('a run that is resumed ends the same, bit for bit, with validation and %s', async (name, more) => {
    const system = path.join(tiny.folder, 'system.parquet');
    await writeParquet(
      system,
      Array.from({ length: 16 }, (_, k) => ({
        data_source: 'openai/gsm8k',
        prompt: [
          { role: 'system', content: '0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9' },
          { role: 'user', content: `${k % 10} + 1 = ?` },
        ],
        reward_model: { style: 'rule', ground_truth: '1' },
      })),
    );
    const run = async (folder: string, signal?: AbortSignal, trackers: TrainOptions['trackers'] = []) => {
      const steps: Metrics[] = [];
      const config = tiny.config(
        `actor_rollout_ref.model.path=${model}`,
        `data.train_files=${system}`,
        `data.val_files=${system}`,
        'data.max_prompt_length=64',
        'trainer.test_freq=1',
        'trainer.save_freq=1',
        'trainer.total_training_steps=3',
        `${actor}.ppo_mini_batch_size=4`,
        `trainer.default_local_dir=${folder}`,
        ...more,
      );
      const tracker = {
        name: 'steps',
        log: (metrics: Metrics, step: number) => void (step && steps.push({ ...metrics })),
      };
      await train({ config, reward: countsDigits, signal, trackers: [tracker, ...trackers] });
      return steps;
    };
    const at = (part: string): string => path.join(tiny.folder, `${name.replaceAll(' ', '-')}-${part}`);
    const whole = await run(at('whole'));
    for (const step of whole) expect(step['perf/recorded_tokens']).toBeGreaterThan(0);
    const stop = new AbortController();
    await run(at('parted'), stop.signal, [{ name: 'stop', log: (_, step) => void (step === 2 && stop.abort()) }]);
    const rest = await run(at('parted'));
    expect(rest).toHaveLength(1);
    expect(largestDifference(weightsOf(at('parted'), 3), weightsOf(at('whole'), 3))).toBe(0);
  });
});
