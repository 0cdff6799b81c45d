import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { composeConfig, train } from 'verlet';
import { afterAll, expect, it } from 'vitest';
import { prepare } from './prepare.mjs';

const here = import.meta.dirname;
const folder = mkdtempSync(path.join(tmpdir(), 'verlet-dapo-'));
afterAll(() => rmSync(folder, { recursive: true }));

it('DAPO: answers get right and stay short, from groups that differ only', async () => {
  const files = await prepare(folder);
  const { config } = composeConfig({
    kind: 'ppo',
    files: ['dapo.yaml', 'tiny.yaml'].map((file) => path.join(here, file)),
    overrides: [
      `data.train_files=${files.train}`,
      'data.val_files=null',
      `actor_rollout_ref.model.path=${files.model}`,
      `trainer.default_local_dir=${path.join(folder, 'run')}`,
      'trainer.logger=[]',
      'trainer.save_freq=-1',
      'trainer.total_training_steps=8',
    ],
  });
  const steps: Record<string, number>[] = [];
  await train({ config, trackers: [{ name: 'test', log: (metrics) => void steps.push({ ...metrics }) }] });
  const over = (name: string, from: number, to: number): number => {
    const part = steps.slice(from, to).map((metrics) => metrics[name]!);
    return part.reduce((sum, value) => sum + value, 0) / part.length;
  };
  expect(over('reward/overlong', -4, 9)).toBeLessThan(over('reward/overlong', 0, 2) - 0.2);
  expect(over('critic/score/mean', -4, 9)).toBeGreaterThan(over('critic/score/mean', 0, 2));
  // Two mini-batches a step: the second one's ratios have moved, some of them beyond the clip.
  expect(over('actor/pg_clipfrac', 0, 8)).toBeGreaterThan(0);
  expect(over('training/filter_groups/evicted_samples', 0, 8)).toBeGreaterThan(0);
});
