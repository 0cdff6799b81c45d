/** Programs in training: several conversations per run, several ranks, what validation counts. */
import { rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { openSafetensors, scope } from '@verlet/torch';
import { generateText } from 'ai';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { withAgentName } from '../../src/agents/index.js';
import { type AdvantageInput, computeAdvantage, scoredRows } from '../../src/algorithms/index.js';
import type { PpoConfig } from '../../src/config/index.js';
import { promptRows } from '../../src/trainer/rows.js';
import { type TrainOptions, train } from '../../src/trainer/train.js';
import { ActorRolloutRefWorker } from '../../src/workers/actor-rollout-ref.js';
import type { TrainedAgent } from '../../src/workers/agent-rollout.js';
import { singleProcess } from '../../src/workers/context.js';
import { type TinySetup, tinySetup } from './tiny.js';

let tiny: TinySetup;
beforeAll(async () => {
  tiny = await tinySetup();
});
afterAll(() => rmSync(tiny.folder, { recursive: true, force: true }));

async function metricsOf(config: PpoConfig, options: Omit<TrainOptions, 'config'> = {}) {
  const steps: Record<string, number>[] = [];
  await train({ config, ...options, trackers: [{ name: 'steps', log: (metrics) => void steps.push({ ...metrics }) }] });
  return steps;
}

/** The k-th sample of a prompt talks k + 1 times about other things; the first earns 1, the last 2, the others nothing. */
const talkative: TrainedAgent = async (row, { session }) => {
  const sample = row.sampleIndex;
  for (let k = 0; k <= sample; k++)
    await session.chat({ messages: [{ role: 'user', content: `${k} + ${sample} = ?` }], sampling: { maxTokens: 4 } });
  return [1, 0, 0, 2][sample]!;
};

const short = ['trainer.total_training_steps=1', 'actor_rollout_ref.rollout.n=4'];

it('a group is compared run by run, however many conversations each run had', async () => {
  let seen: { scores: number[]; advantages: number[]; keys: readonly string[] } | undefined;
  const advantage = (input: AdvantageInput) => {
    const result = computeAdvantage('grpo', input);
    seen = {
      scores: input.tokenLevelRewards.sum(-1).toArray() as number[],
      advantages: result.advantages.select(1, 0).toArray() as number[],
      keys: input.trajectoryKeys!,
    };
    return result;
  };
  const config = tiny.config(...short, `trainer.default_local_dir=${tiny.folder}/uneven`);
  const [step] = await metricsOf(config, { agent: talkative, advantage });
  // 8 prompts, 1 + 2 + 3 + 4 conversations each; the mean of a group is 3/4, and not (1*1 + 4*2) / 10.
  expect(seen!.scores).toHaveLength(80);
  const spread = Math.sqrt((0.25 ** 2 + 2 * 0.75 ** 2 + 1.25 ** 2) / 3) + 1e-6;
  for (const [row, score] of seen!.scores.entries())
    expect(seen!.advantages[row]).toBeCloseTo((score - 0.75) / spread, 4);
  expect(new Set(scoredRows(seen!.keys)).size).toBe(32);
  expect(step).toMatchObject({
    'agent/programs': 32,
    'agent/trajectories': 80,
    'critic/score/mean': 0.75,
    'reward/score': 0.75,
    'critic/score/max': 2,
  });
});

it('group filtering and resampling take and leave whole runs', async () => {
  let keys: readonly string[] = [];
  const advantage = (input: AdvantageInput) => {
    keys = input.trajectoryKeys!;
    return computeAdvantage('grpo', input);
  };
  // Odd items score the same in every run, although a run's conversations differ in the reward function's eyes.
  const agent: TrainedAgent = async (row, context) => {
    const reward = await talkative(row, context);
    return Number(row.extra_info.index) % 2 === 1 ? 0.5 : reward!;
  };
  const [filtered] = await metricsOf(
    tiny.config(
      ...short,
      'data.train_batch_size=4',
      'actor_rollout_ref.actor.ppo_mini_batch_size=4',
      'algorithm.filter_groups.enable=true',
      'algorithm.filter_groups.max_num_gen_batches=8',
      `trainer.default_local_dir=${tiny.folder}/filtered`,
    ),
    { agent, advantage },
  );
  expect(keys).toHaveLength(4 * 10);
  expect(filtered!['critic/score/mean']).toBeCloseTo(0.75, 6);

  await metricsOf(
    tiny.config(
      ...short,
      'algorithm.use_pf_ppo=true',
      'algorithm.pf_ppo.reweight_method=max_min',
      `trainer.default_local_dir=${tiny.folder}/resampled`,
    ),
    { agent: talkative, advantage },
  );
  // 32 draws of whole runs: of four conversations (the best) or of two or three (the worst).
  const sizes = new Map<string, number>();
  for (const key of keys) {
    const rollout = key.replace(/_\d+$/, '');
    sizes.set(rollout, (sizes.get(rollout) ?? 0) + 1);
  }
  expect(sizes.size).toBe(32);
  expect([...sizes.values()].every((size) => size >= 2 && size <= 4)).toBe(true);
});

it('validation counts every run once, also those that never asked the model', async () => {
  const steps = await metricsOf(
    tiny.config(
      ...short,
      `data.val_files=${tiny.train}`,
      'trainer.val_before_train=true',
      'trainer.val_only=true',
      `trainer.default_local_dir=${tiny.folder}/validated`,
    ),
    {
      agent: async (row, { session }) => {
        const index = Number(row.extra_info.index);
        if (index % 4 === 0) return 1;
        for (let k = 0; k < index % 4; k++)
          await session.chat({ messages: [{ role: 'user', content: `${k} = ?` }], sampling: { maxTokens: 2 } });
        if (index % 4 === 3) throw new Error('it broke');
        return 0;
      },
    },
  );
  // A quarter each: silent and right, once and wrong, twice and wrong, broken.
  expect(steps[0]).toMatchObject({ 'val-core/openai/gsm8k/reward/mean@1': 0.25 });
  expect(Object.keys(steps[0]!).filter((name) => /mean@[^1]/.test(name))).toEqual([]);
});

it('parallel and nested sub-agents of many programs at once are told apart', async () => {
  const config = tiny.config(
    ...short,
    'data.max_response_length=24',
    `trainer.default_local_dir=${tiny.folder}/nested`,
  );
  const [step] = await metricsOf(config, {
    agent: async (row, { model }) => {
      const ask = (content: string) =>
        generateText({ model, messages: [...row.prompt, { role: 'user', content }], maxOutputTokens: 3 });
      const helper = (name: string) =>
        withAgentName(name, async () => {
          const { text } = await ask(`${name.length} = ?`);
          // A helper of the helper, some awaits later.
          await new Promise(setImmediate);
          return (await withAgentName(`${name}_critic`, () => ask(text))).text;
        });
      const found = await Promise.all([helper('first'), helper('second')]);
      await ask(found.join(' '));
      return row.sampleIndex % 2;
    },
  });
  expect(step).toMatchObject({
    'agent/programs': 32,
    'agent/program_errors': 0,
    'agent/trajectories': 5 * 32,
    'agent/first/trajectories': 32,
    'agent/first_critic/trajectories': 32,
    'agent/second_critic/trajectories': 32,
    'agent/program/trajectories': 32,
    'critic/score/mean': 0.5,
  });
});

it('a call that comes after its program has ended is refused at once, and the run goes on', async () => {
  let stepIsOver = () => {};
  const afterStep = new Promise<void>((resolve) => {
    stepIsOver = resolve;
  });
  const late: Promise<unknown>[] = [];
  const steps: number[] = [];
  await train({
    config: tiny.config('trainer.total_training_steps=3', `trainer.default_local_dir=${tiny.folder}/late`),
    agent: async (row, { model, session }) => {
      const { text } = await session.chat({ messages: row.prompt });
      // Work that the program forgot: one call through each door, when weights have changed.
      const forgotten = [
        () => session.chat({ messages: row.prompt }),
        () => generateText({ model, messages: row.prompt, maxRetries: 0 }),
      ];
      if (steps.length === 0)
        for (const ask of forgotten)
          late.push(
            afterStep.then(ask).then(
              () => 'answered',
              (error: Error) => error.message,
            ),
          );
      return text.length % 2;
    },
    trackers: [
      {
        name: 'steps',
        log: (_, step) => {
          steps.push(step);
          stepIsOver();
        },
      },
    ],
  });
  expect(steps).toEqual([1, 2, 3]);
  const answers = await Promise.all(late);
  expect(answers).toHaveLength(2 * 32);
  for (const answer of answers) expect(answer).toMatch(/the rollout .* is over/);
});

it('an update in the middle of an answer: its tokens say which weights they come from', async () => {
  let firstToken = () => {};
  const hasBegun = new Promise<void>((resolve) => {
    firstToken = resolve;
  });
  let isLongRun = false;
  const agent: TrainedAgent = async (row, { session }) => {
    const call = { messages: row.prompt, sampling: { ignoreEos: true } };
    const running = await session.begin(call);
    if (isLongRun) for await (const _ of running.tokens) firstToken();
    await running.result;
    return row.sampleIndex % 2;
  };
  const config = tiny.config('data.max_response_length=64');
  const worker = new ActorRolloutRefWorker(config, singleProcess('cpu'), { agent });
  const rows = () =>
    promptRows([{ index: 0, rawPrompt: [{ role: 'user', content: '1 + 1 = ?' }] } as never], config, 1);
  try {
    await worker.initModel({ totalSteps: 2, useReference: false });
    const batch = await worker.generateSequences(rows());
    batch.set(
      'advantages',
      scope(() => batch.tensor('response_mask').to('float32')),
    );
    isLongRun = true;
    const generating = worker.generateSequences(rows());
    await hasBegun;
    await worker.updateActor(batch);
    const trajectories = (await generating).column<{ weightVersions: number[]; error?: string }>('trajectory');
    expect(trajectories).toHaveLength(4);
    for (const { weightVersions, error } of trajectories) {
      expect(error).toBeUndefined();
      expect(weightVersions).toHaveLength(64);
      expect([weightVersions[0], weightVersions.at(-1)]).toEqual([0, 1]);
      expect(weightVersions).toEqual([...weightVersions].sort());
    }
  } finally {
    await worker.close();
  }
});

const PROGRAM = `type Session = { chat(call: object): Promise<{ text: string }> };
type Row = { sampleIndex: number; uid: string; prompt: { role: string; content: string }[] };
export default async (row: Row, { session }: { session: Session }) => {
  const rank = Number(process.env.RANK ?? 0);
  // What only one of the ranks does: its programs of the first sample never ask the model.
  if (row.sampleIndex === 0 && row.prompt[0]!.content.startsWith('0')) return { digits: 0, rank };
  const { text } = await session.chat({ messages: row.prompt });
  if (row.sampleIndex === 3) await session.chat({ messages: [{ role: 'user', content: '1 + 1 = ?' }] });
  return { digits: (text.match(/[0-9]/g) ?? []).length / 8, rank };
};
`;

it('a program named in the configuration runs on every rank, and two ranks learn what one learns', async () => {
  const file = path.join(tiny.folder, 'program.ts');
  writeFileSync(file, PROGRAM);
  const run = async (name: string, ...overrides: string[]) => {
    const folder = path.join(tiny.folder, name);
    const steps = await metricsOf(
      tiny.config(
        `actor_rollout_ref.rollout.agent.program.path=${file}`,
        '+reward_model.channel_weights.rank=0',
        'actor_rollout_ref.actor.ppo_mini_batch_size=4',
        'actor_rollout_ref.actor.optim.lr=1e-3',
        'trainer.device=cpu',
        'trainer.save_freq=3',
        `trainer.default_local_dir=${folder}`,
        ...overrides,
      ),
    );
    using reader = openSafetensors(path.join(folder, 'global_step_3', 'actor', 'huggingface'));
    const weights = reader.names().map((tensor) => scope(() => reader.tensor(tensor).toFloat32Array()));
    return { steps, weights };
  };
  const one = await run('one-rank');
  const two = await run('two-ranks', 'trainer.n_gpus_per_node=2', 'trainer.launcher=process');
  const told = ['agent/programs', 'agent/programs_without_calls', 'agent/trajectories', 'critic/score/mean'] as const;
  for (const [k, step] of two.steps.entries()) {
    for (const name of told) expect(step[name], name).toBe(one.steps[k]![name]);
    expect(step['agent/programs']).toBe(32);
    // Half of the runs were made by each.
    expect(step['reward/rank']).toBeGreaterThan(0.4);
    expect(step['reward/rank']).toBeLessThan(0.6);
    expect(step['actor/grad_norm']).toBeGreaterThan(0);
  }
  expect(two.steps.some((step) => step['agent/programs_without_calls']! > 0)).toBe(true);
  let difference = 0;
  for (const [k, values] of one.weights.entries())
    for (const [at, value] of values.entries())
      difference = Math.max(difference, Math.abs(value - two.weights[k]![at]!));
  // Six steps of Adam at 1e-3 move a weight by up to 6e-3.
  expect(difference).toBeLessThan(2e-4);
});
