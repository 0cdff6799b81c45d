/** The whole loop over processes: `trainer.launcher=process` trains like one process does. */
import { execFileSync } from 'node:child_process';
import { readdirSync, rmSync } from 'node:fs';
import path from 'node:path';
import { openSafetensors, scope } from '@verlet/torch';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { train } from '../../src/trainer/train.js';
import { countsDigits, type TinySetup, tinySetup } from '../trainer/tiny.js';

let tiny: TinySetup;
beforeAll(async () => {
  tiny = await tinySetup();
});
afterAll(() => rmSync(tiny.folder, { recursive: true, force: true }));

async function run(name: string, ...overrides: string[]) {
  const folder = path.join(tiny.folder, name);
  const scores: number[] = [];
  const { metrics, globalStep } = await train({
    config: tiny.config(
      'algorithm.adv_estimator=gae',
      'actor_rollout_ref.actor.ppo_mini_batch_size=4',
      'actor_rollout_ref.actor.optim.lr=1e-3',
      'critic.optim.lr=1e-3',
      'trainer.device=cpu',
      'trainer.save_freq=2',
      `trainer.default_local_dir=${folder}`,
      ...overrides,
    ),
    reward: countsDigits,
    trackers: [{ name: 'test', log: (values) => void scores.push(values['critic/score/mean']!) }],
  });
  const weights = new Map<string, Float32Array>();
  using reader = openSafetensors(path.join(folder, `global_step_${globalStep}`, 'actor', 'huggingface'));
  for (const tensor of reader.names())
    weights.set(
      tensor,
      scope(() => reader.tensor(tensor).toFloat32Array()),
    );
  return { metrics, globalStep, scores, weights };
}

it('trains two ranks to the same scores and weights as one', async () => {
  const one = await run('one', 'trainer.total_training_steps=2');
  const two = await run(
    'two',
    'trainer.total_training_steps=2',
    'trainer.n_gpus_per_node=2',
    'trainer.launcher=process',
  );
  expect(two.globalStep).toBe(2);
  // Samples depend on seeds, not on ranks.
  expect(two.scores).toEqual(one.scores);
  let difference = 0;
  for (const [name, values] of one.weights)
    for (const [k, value] of two.weights.get(name)!.entries())
      difference = Math.max(difference, Math.abs(value - values[k]!));
  // Eight steps of Adam at 1e-3 move a weight by up to 8e-3.
  expect(difference).toBeLessThan(2e-4);
  expect(two.metrics['actor/grad_norm']! / one.metrics['actor/grad_norm']!).toBeCloseTo(1, 2);
  expect(two.metrics['global_seqlen/balanced_max']).toBeGreaterThan(0);
});

it('resumes on one rank what two ranks saved', async () => {
  const { globalStep } = await run('two', 'trainer.total_training_steps=3');
  expect(globalStep).toBe(3);
  expect(readdirSync(path.join(tiny.folder, 'two'))).toContain('global_step_2');
});

it('ends with the name of a rank that dies, and goes on from the last checkpoint', async () => {
  const killer = {
    name: 'killer',
    log: (_: unknown, step: number) => {
      if (step !== 2) return;
      const children = execFileSync('pgrep', ['-P', String(process.pid), '-f', 'rank-entry'], { encoding: 'utf8' });
      process.kill(Number(children.trim().split('\n').at(-1)), 'SIGKILL');
    },
  };
  const config = tiny.config(
    'trainer.total_training_steps=4',
    'trainer.save_freq=1',
    'trainer.n_gpus_per_node=2',
    'trainer.device=cpu',
    `trainer.default_local_dir=${tiny.folder}/killed`,
  );
  await expect(train({ config, reward: countsDigits, trackers: [killer] })).rejects.toMatchObject({
    name: 'WorkerError',
    failure: 'died',
    message: /rank \d of 2 died in .*SIGKILL/,
  });
  expect(readdirSync(path.join(tiny.folder, 'killed'))).toContain('global_step_2');
  const steps: number[] = [];
  const again = await train({
    config: { ...config, trainer: { ...config.trainer, n_gpus_per_node: 1 } },
    reward: countsDigits,
    trackers: [{ name: 'test', log: (_, step) => void steps.push(step) }],
  });
  expect(again.globalStep).toBe(4);
  expect(steps).toEqual([3, 4]);
});

it('says what cannot be placed', async () => {
  const refuse = (...overrides: string[]) => run('refused', ...overrides);
  await expect(refuse('trainer.n_gpus_per_node=2', 'trainer.launcher=inline')).rejects.toThrow(
    /use trainer.launcher=process/,
  );
  await expect(refuse('trainer.nnodes=2')).rejects.toThrow(/on this machine only; use trainer.launcher=ray/);
});
