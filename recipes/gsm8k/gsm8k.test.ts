import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { composeConfig, train } from 'verlet';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { prepare } from './prepare.mjs';

const here = import.meta.dirname;
const folder = mkdtempSync(path.join(tmpdir(), 'verlet-gsm8k-'));
let files: { model: string; train: string; test: string };
beforeAll(async () => {
  files = await prepare(folder, { sftSteps: 120 });
});
afterAll(() => rmSync(folder, { recursive: true }));

function run(name: string, configs: string[], ...overrides: string[]) {
  const { config } = composeConfig({
    kind: 'ppo',
    files: configs.map((config) => path.join(here, config)),
    overrides: [
      `data.train_files=${files.train}`,
      'data.val_files=null',
      `actor_rollout_ref.model.path=${files.model}`,
      `critic.model.path=${files.model}`,
      `custom_reward_function.path=${path.join(here, 'reward.ts')}`,
      `trainer.default_local_dir=${path.join(folder, name)}`,
      'trainer.logger=[]',
      'trainer.save_freq=-1',
      ...overrides,
    ],
  });
  const scores: number[] = [];
  const tracker = {
    name: 'test',
    log: (values: Record<string, number>) => void scores.push(values['critic/score/mean']!),
  };
  return train({ config, trackers: [tracker] }).then((result) => ({ ...result, scores }));
}

const mean = (values: number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;

describe('gsm8k', () => {
  it('GRPO over all weights raises the score', async () => {
    const { scores } = await run('grpo', ['grpo.yaml', 'tiny.yaml'], 'trainer.total_training_steps=16');
    expect(mean(scores.slice(-5))).toBeGreaterThan(mean(scores.slice(0, 3)) + 0.1);
  });

  it.each([
    ['GRPO with an adapter', ['grpo.yaml', 'lora.yaml', 'tiny.yaml', 'tiny-lora.yaml']],
    ['PPO over all weights', ['grpo.yaml', 'ppo.yaml', 'tiny.yaml']],
    ['PPO with an adapter', ['grpo.yaml', 'ppo.yaml', 'lora.yaml', 'tiny.yaml', 'tiny-lora.yaml']],
  ])('%s runs', async (name, configs) => {
    const { metrics, scores } = await run(name.replaceAll(' ', '-'), configs, 'trainer.total_training_steps=2');
    expect(scores).toHaveLength(2);
    expect(metrics['actor/grad_norm']).toBeGreaterThan(0);
    expect('critic/vf_loss' in metrics).toBe(configs.includes('ppo.yaml'));
  });
});
