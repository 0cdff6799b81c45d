import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { composeConfig, rewards, train } from 'verlet';
import { afterAll, expect, it } from 'vitest';
import { fastestLanguage, prepare } from './prepare.mjs';

const here = import.meta.dirname;
const folder = mkdtempSync(path.join(tmpdir(), 'verlet-code-'));
afterAll(async () => {
  rmSync(folder, { recursive: true });
  await rewards.closeSharedSandbox();
});

it('programs that pass their tests are learnt', async ({ skip }) => {
  const language = await fastestLanguage();
  if (language === null) {
    console.log('skipped: there is no sandbox on this machine');
    skip();
  }
  const files = await prepare(folder, { language });
  const { config } = composeConfig({
    kind: 'ppo',
    files: ['grpo.yaml', 'tiny.yaml'].map((file) => path.join(here, file)),
    overrides: [
      `data.train_files=${files.train}`,
      'data.val_files=null',
      `actor_rollout_ref.model.path=${files.model}`,
      `custom_reward_function.path=${path.join(here, 'reward.ts')}`,
      `trainer.default_local_dir=${path.join(folder, 'run')}`,
      'trainer.logger=[]',
      'trainer.save_freq=-1',
      'trainer.total_training_steps=9',
    ],
  });
  const scores: number[] = [];
  const { metrics } = await train({
    config,
    trackers: [{ name: 'test', log: (values) => void scores.push(values['critic/score/mean']!) }],
  });
  const mean = (values: number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;
  expect(mean(scores.slice(-3))).toBeGreaterThan(mean(scores.slice(0, 3)) + 0.15);
  expect(metrics['reward/error_count']).toBe(0);
});
