import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { train } from 'verlet';
import { afterAll, expect, it } from 'vitest';
import { configFor } from '../run-options.mjs';
import { prepare } from './prepare.mjs';
import { serve, settings } from './run.mjs';

const folder = mkdtempSync(join(tmpdir(), 'verlet-search-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

it('Search-R1 training raises exact match on facts that were not trained on', async () => {
  const files = await prepare(join(folder, 'start'));
  const retriever = await serve(files.corpus);
  const steps: Record<string, number>[] = [];
  const config = configFor(files, join(folder, 'run'), [
    ...settings,
    'data.train_batch_size=8',
    'actor_rollout_ref.actor.ppo_mini_batch_size=8',
    'trainer.total_training_steps=8',
    'trainer.test_freq=8',
    'trainer.save_freq=-1',
    'trainer.logger=[]',
    `retriever.url=${retriever.url}`,
  ]);
  try {
    await train({
      config,
      trackers: [{ name: 'steps', log: (metrics: object) => void steps.push({ ...metrics } as never) }],
    });
  } finally {
    await retriever.close();
  }
  const [before, first, last] = [steps[0]!, steps[1]!, steps.at(-1)!];
  const exactMatch = 'val-core/searchR1_nq/reward/mean@1';
  expect(before[exactMatch]).toBeLessThan(0.2);
  expect(last[exactMatch]).toBeGreaterThan(before[exactMatch]! + 0.4);
  expect(last['env/number_of_valid_search/mean']).toBeGreaterThan(first['env/number_of_valid_search/mean']! + 0.3);
  expect(last['state_tokens/coverage']).toBeLessThan(0.7);
});
