/** Settings whose effect is seen only in a whole run. */
import { cpSync, existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { availableParallelism } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { liveTensors, manualSeed, noGrad, saveSafetensors } from '@verlet/torch';
import { beforeAll, expect, it } from 'vitest';
import { loadCausalLM, loadValueModel, saveCausalLM } from '../../src/models/index.js';
import { Tokenizer } from '../../src/models/tokenizer/index.js';
import { configureSharedSandbox, createRewardInput, sharedSandbox } from '../../src/rewards/index.js';
import { loadEngine, startServer } from '../../src/rollout/index.js';
import { openReward } from '../../src/trainer/reward-setup.js';
import { train } from '../../src/trainer/train.js';
import { countsDigits, type TinySetup, tinySetup } from './tiny.js';

let tiny: TinySetup;
beforeAll(async () => {
  tiny = await tinySetup();
});

it('skip.rollout samples once and reads afterwards', async () => {
  const dump = path.join(tiny.folder, 'dump');
  const stored = (): string[] => readdirSync(dump).flatMap((folder) => readdirSync(path.join(dump, folder)));
  const run = async (name: string, ...more: string[]) => {
    const config = tiny.config(
      'skip.rollout.enable=true',
      `skip.rollout.dump_dir=${dump}`,
      'trainer.total_training_steps=2',
      `trainer.default_local_dir=${tiny.folder}/${name}`,
      ...more,
    );
    return (await train({ config, reward: countsDigits })).metrics['training/rollout_probs_diff_max']!;
  };
  expect(await run('skip-a')).toBeLessThan(1e-4);
  const before = stored();
  expect(before).toHaveLength(2);
  // Its weights are others after the first step: what it reads in the second is not what it would have sampled.
  expect(await run('skip-b', 'actor_rollout_ref.actor.optim.lr=0.1')).toBeGreaterThan(1e-3);
  expect(stored()).toEqual(before);
});

it('reward_model.enable scores with a sequence classifier, alone and beside a reward function', async () => {
  const folder = path.join(tiny.folder, 'judge');
  cpSync(tiny.model, folder, { recursive: true });
  manualSeed(5);
  const judge = await loadValueModel(tiny.model);
  saveSafetensors(path.join(folder, 'model.safetensors'), judge.stateEntries());
  judge.dispose();
  const rewardFile = path.join(tiny.folder, 'ten.mjs');
  writeFileSync(rewardFile, 'export const compute_score = () => 10;\n');
  const run = async (name: string, ...more: string[]) => {
    const config = tiny.config(
      'reward_model.enable=true',
      `reward_model.model.path=${folder}`,
      'reward_model.use_dynamic_bsz=true',
      'trainer.total_training_steps=1',
      `trainer.default_local_dir=${tiny.folder}/${name}`,
      ...more,
    );
    return (await train({ config })).metrics;
  };
  const alone = await run('judged');
  expect(alone['critic/score/max']).not.toBe(alone['critic/score/min']);
  const both = await run('judged-both', `custom_reward_function.path=${rewardFile}`);
  expect(both['critic/score/mean']).toBeCloseTo(alone['critic/score/mean']! + 10, 3);
});

it('max_critic_ckpt_to_keep drops old critics and leaves their actors', async () => {
  const run = path.join(tiny.folder, 'critics');
  const config = tiny.config(
    'algorithm.adv_estimator=gae',
    'trainer.save_freq=1',
    'trainer.max_critic_ckpt_to_keep=1',
    `trainer.default_local_dir=${run}`,
  );
  await train({ config, reward: countsDigits });
  const has = (step: number, member: string): boolean => existsSync(path.join(run, `global_step_${step}`, member));
  expect([1, 2, 3].map((step) => has(step, 'critic'))).toEqual([false, false, true]);
  expect([1, 2, 3].map((step) => has(step, 'actor'))).toEqual([true, true, true]);
});

it('data.sampler chooses the prompts and is told how they did', async () => {
  const file = path.join(tiny.folder, 'sampler.mjs');
  writeFileSync(
    file,
    `export const told = [];
export default class Backwards {
  constructor({ length }) { this.epochLength = length; this.at = length; }
  startEpoch() { this.at = this.epochLength; }
  next() { return --this.at; }
  state() { return this.at; }
  restore(at) { this.at = at; }
  update(feedback) { told.push(feedback); }
}
`,
  );
  const config = tiny.config(
    `data.sampler.class_path=${file}`,
    'data.sampler.class_name=default',
    'trainer.total_training_steps=1',
    `trainer.default_local_dir=${tiny.folder}/sampled`,
  );
  await train({ config, reward: () => 0.5 });
  const { told } = (await import(file)) as { told: { index: number; score: number }[][] };
  expect(told).toHaveLength(1);
  expect([...new Set(told[0]!.map(({ index }) => index))]).toEqual([63, 62, 61, 60, 59, 58, 57, 56]);
  expect(told[0]!.every(({ score }) => score === 0.5)).toBe(true);
});

it('remax finds the greedy baselines of batches that group filtering added', async () => {
  const baselines: number[] = [];
  const config = tiny.config(
    'algorithm.adv_estimator=remax',
    'algorithm.filter_groups.enable=true',
    'algorithm.filter_groups.metric=noise',
    'trainer.total_training_steps=1',
    `trainer.default_local_dir=${tiny.folder}/remax`,
  );
  let calls = 0;
  // Every answer is worth 3, the greedy one too: with its baseline no answer is better than another.
  const result = await train({
    config,
    reward: () => ({ score: 3, noise: calls++ }),
    trackers: [{ name: 'advantages', log: (metrics) => void baselines.push(metrics['critic/advantages/max']!) }],
  });
  expect(result.globalStep).toBe(1);
  expect(baselines[0]).toBeCloseTo(0, 5);
});

it('a model that cannot be loaded closes what was opened before it', async () => {
  const folder = path.join(tiny.folder, 'broken-model');
  cpSync(tiny.model, folder, { recursive: true });
  writeFileSync(path.join(folder, 'model.safetensors'), 'not weights');
  const config = tiny.config(
    `actor_rollout_ref.model.path=${folder}`,
    `trainer.default_local_dir=${tiny.folder}/broken`,
  );
  const before = liveTensors().count;
  let finished = 0;
  const tracker = { name: 'finishing', log: () => {}, finish: () => void finished++ };
  await expect(train({ config, reward: countsDigits, trackers: [tracker] })).rejects.toThrow(/model\.safetensors/);
  expect(finished).toBe(1);
  expect(liveTensors().count).toBeLessThanOrEqual(before + 8);
});

it('rollout.name=http samples from a server, which gets the new weights after every step', async () => {
  const tokenizer = await Tokenizer.load(tiny.model);
  const engine = await loadEngine(tiny.model, { tokenizer, maxModelLength: 32 });
  const differences: number[] = [];
  const run = async (control: boolean) => {
    const server = await startServer({ engine, tokenizer, model: 'tiny', control });
    const config = tiny.config(
      'actor_rollout_ref.rollout.name=http',
      `actor_rollout_ref.rollout.server.base_url=${server.url}/v1`,
      'trainer.total_training_steps=3',
      `trainer.default_local_dir=${tiny.folder}/served`,
    );
    const log = (metrics: Record<string, number>) => void differences.push(metrics['training/rollout_probs_diff_max']!);
    try {
      await train({ config, reward: countsDigits, trackers: [{ name: 'differences', log }] });
    } finally {
      await server.close({ deadlineMs: 100 });
    }
  };
  await expect(run(false)).rejects.toThrow(/did not take the weights.*update_weights_from_disk/);
  await run(true);
  expect(differences).toHaveLength(3);
  expect(Math.max(...differences)).toBeLessThan(1e-4);
  expect(engine.stats.numGeneratedTokens).toBeGreaterThan(0);
  await engine.close();
});

it('ref.model.path is the reference, when it is another model than the one that is trained', async () => {
  const folder = path.join(tiny.folder, 'reference');
  cpSync(tiny.model, folder, { recursive: true });
  manualSeed(9);
  const other = await loadCausalLM(tiny.model);
  for (const parameter of other.parameters()) noGrad(() => parameter.mul_(1.5));
  await saveCausalLM(other, folder, { source: tiny.model });
  other.dispose();
  const divergence = async (...more: string[]) => {
    const config = tiny.config(
      'actor_rollout_ref.actor.use_kl_loss=true',
      'trainer.total_training_steps=1',
      `trainer.default_local_dir=${tiny.folder}/referred`,
      ...more,
    );
    return (await train({ config, reward: countsDigits })).metrics['actor/kl_loss']!;
  };
  expect(await divergence()).toBeCloseTo(0, 6);
  expect(await divergence(`actor_rollout_ref.ref.model={path:${folder}}`)).toBeGreaterThan(1e-3);
});

it('a scoring service named in the configuration scores, by the ids of its tasks', async () => {
  const asked: string[] = [];
  const service = createServer(async (request, response) => {
    let body = '';
    for await (const chunk of request) body += chunk;
    const { samples } = JSON.parse(body) as { samples: { id: string; solution_str: string }[] };
    asked.push(...samples.map((sample) => sample.id));
    response.setHeader('content-type', 'application/json');
    response.end(
      JSON.stringify({ results: samples.map((sample) => ({ id: sample.id, score: countsDigits(sample) })) }),
    );
  });
  await new Promise<void>((resolve) => service.listen(0, '127.0.0.1', resolve));
  try {
    const config = tiny.config(
      'reward_model.reward_manager=remote',
      `reward_model.reward_kwargs.url=http://127.0.0.1:${(service.address() as AddressInfo).port}/score`,
      'reward_model.reward_kwargs.batch_size=8',
      'trainer.total_training_steps=1',
      `trainer.default_local_dir=${tiny.folder}/service`,
    );
    const { metrics } = await train({ config });
    expect(metrics['reward/error_count']).toBe(0);
    expect(metrics['critic/score/max']).toBeGreaterThan(0);
    expect(new Set(asked).size).toBe(32);
  } finally {
    service.closeAllConnections();
    await new Promise((resolve) => service.close(resolve));
  }
});

it('a judge named in the configuration grades, alone and beside a reward function, which has as many processes as asked for', async () => {
  const judge = createServer(async (request, response) => {
    let body = '';
    for await (const chunk of request) body += chunk;
    const { model, messages } = JSON.parse(body) as { model: string; messages: { content: string }[] };
    const isMeant = model === 'grader' && messages[0]!.content.includes('short is good');
    const content = `Well. {"reason": "r", "score": ${isMeant && messages[1]!.content.includes('Reference answer:\n4') ? 5 : 0}}`;
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify({ choices: [{ message: { role: 'assistant', content } }] }));
  });
  await new Promise<void>((resolve) => judge.listen(0, '127.0.0.1', resolve));
  const rubric = path.join(tiny.folder, 'rubric.md');
  writeFileSync(rubric, 'short is good');
  const own = path.join(tiny.folder, 'process.py');
  writeFileSync(
    own,
    'import os, time\ndef compute_score(data_source, solution_str, ground_truth, extra_info=None):\n  time.sleep(0.3)\n  return {"score": 10, "pid": os.getpid()}\n',
  );
  const tokenizer = await Tokenizer.load(tiny.model);
  const score = async (...overrides: string[]) => {
    const endpoint = `reward_model.judge.base_url=http://127.0.0.1:${(judge.address() as AddressInfo).port}/v1`;
    const named = [endpoint, 'reward_model.judge.model=grader', 'reward_model.judge.show_reference=true', ...overrides];
    const { manager } = await openReward(tiny.config(...named), tokenizer, () => null as never, {});
    const samples = [1, 2, 3, 4].map((k) =>
      createRewardInput({ data_source: 'any', solution_str: `a${k}`, ground_truth: '4' }),
    );
    const scored = await manager.score(samples);
    await manager.close();
    return scored;
  };
  try {
    const alone = await score(`reward_model.judge.rubric_path=${rubric}`);
    expect(alone.map((sample) => sample.score)).toEqual([0.5, 0.5, 0.5, 0.5]);
    const both = (workers: number) =>
      score(
        'reward_model.judge.rubric=short is good',
        'reward_model.judge.weight=4',
        `custom_reward_function.path=${own}`,
        `reward_model.num_workers=${workers}`,
      );
    const [together, one] = [await both(8), await both(1)];
    expect(together[0]).toMatchObject({
      score: 12,
      extras: { function_score: 10, judge_score: 0.5, judge_reason: 'r' },
    });
    const pids = (scored: typeof one) => new Set(scored.map((sample) => sample.extras.pid)).size;
    expect(pids(one)).toBe(1);
    expect(pids(together)).toBe(Math.min(4, 8, availableParallelism()));
    await expect(score()).rejects.toThrow(/reward_model\.judge\.rubric/);
  } finally {
    judge.closeAllConnections();
    await new Promise((resolve) => judge.close(resolve));
    await configureSharedSandbox({});
  }
});

it('a sandbox service named in the configuration runs the code of rewards', async () => {
  const config = tiny.config(
    'reward_model.sandbox_fusion.url=http://127.0.0.1:9/run_code',
    'trainer.total_training_steps=1',
    `trainer.default_local_dir=${tiny.folder}/fusion`,
  );
  await train({ config, reward: countsDigits });
  try {
    expect((await sharedSandbox()).describe().python.level).toBe('remote');
  } finally {
    await configureSharedSandbox({});
  }
});

it("custom_chat_template takes the place of the tokenizer's, goes with the checkpoint, and shows tools that then count", async () => {
  const file = path.join(tiny.folder, 'template.jinja');
  const tools = '{% if tools %}0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5{% endif %}';
  writeFileSync(file, `${tools}#### {% for m in messages %}{{ m.content }}{% endfor %}`);
  const template = `actor_rollout_ref.model.custom_chat_template=${file}`;
  const run = path.join(tiny.folder, 'templated');
  const folder = `trainer.default_local_dir=${run}`;
  const rollouts = path.join(tiny.folder, 'templated-rollouts');
  const once = ['trainer.total_training_steps=1', 'trainer.save_freq=1', `trainer.rollout_data_dir=${rollouts}`];
  await train({ config: tiny.config(template, folder, ...once), reward: countsDigits });
  const [line] = readFileSync(path.join(rollouts, '1.jsonl'), 'utf8').split('\n');
  expect((JSON.parse(line!) as { input: string }).input).toMatch(/^####/);
  const saved = path.join(run, 'global_step_1/actor/huggingface/chat_template.jinja');
  expect(readFileSync(saved, 'utf8')).toBe(readFileSync(file, 'utf8'));

  const own = fileURLToPath(new URL('./faulty-tools.mjs', import.meta.url));
  const toolsToo = tiny.config(template, folder, `actor_rollout_ref.rollout.multi_turn.function_tool_path=${own}`);
  await expect(train({ config: toolsToo, reward: countsDigits })).rejects.toThrow(/max_prompt_length/);
});

it('override_config changes the model that is trained, and is refused where weights do not fit it', async () => {
  const run = (name: string, ...more: string[]) =>
    train({
      config: tiny.config(
        'algorithm.adv_estimator=gae',
        'trainer.total_training_steps=1',
        'trainer.save_freq=1',
        `trainer.default_local_dir=${tiny.folder}/${name}`,
        ...more,
      ),
      reward: countsDigits,
    });
  await run('overridden', '+actor_rollout_ref.model.override_config.rope_theta=5000');
  const config = path.join(tiny.folder, 'overridden/global_step_1/actor/huggingface/config.json');
  expect((JSON.parse(readFileSync(config, 'utf8')) as { rope_theta: number }).rope_theta).toBe(5000);
  await expect(run('misfit', '+critic.model.override_config.hidden_size=64')).rejects.toThrow(/shape|size/);
});

it("Search-R1's scores of form grade its data sources by form too", async () => {
  const config = tiny.config('reward_model.structure_format_score=0.2', 'reward_model.retrieval_score=0.1');
  const tokenizer = await Tokenizer.load(tiny.model);
  const { manager } = await openReward(config, tokenizer, () => null as never, {});
  const asked = (data_source: string, solution_str: string, ground_truth: unknown) =>
    createRewardInput({ data_source, solution_str, ground_truth } as never);
  const wellFormed = '<think>hm</think><search>x</search><information>it is 4</information><think>so</think>';
  const samples = await manager.score([
    asked('searchR1_nq', `${wellFormed}<answer>5</answer>`, { target: ['4'] }),
    asked('searchR1_nq', '<answer>4</answer>', { target: ['4'] }),
    asked('openai/gsm8k', '#### 4', '4'),
  ]);
  expect(samples.map(({ score }) => Number(score.toFixed(6)))).toEqual([0.3, 0.8, 1]);
  await manager.close();
});
