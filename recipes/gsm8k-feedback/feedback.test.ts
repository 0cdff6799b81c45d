import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { train } from 'verlet';
import { afterAll, expect, it } from 'vitest';
import { configFor } from '../run-options.mjs';
import { prepare } from './prepare.mjs';
import { settings } from './run.mjs';

const folder = mkdtempSync(join(tmpdir(), 'verlet-feedback-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

it('learns from rewards that an interaction gives to turns', async () => {
  const files = await prepare(join(folder, 'start'), { largest: 5, sftSteps: 140 });
  const steps: Record<string, number>[] = [];
  const config = configFor(files, join(folder, 'run'), [
    ...settings,
    'trainer.total_training_steps=12',
    'trainer.test_freq=-1',
    'trainer.val_before_train=false',
    'trainer.save_freq=-1',
    'trainer.logger=[]',
  ]);
  await train({ config, trackers: [{ name: 'steps', log: (metrics: object) => void steps.push({ ...metrics }) }] });
  const mean = (part: typeof steps, name: string) => part.reduce((sum, step) => sum + step[name]!, 0) / part.length;
  const [early, late] = [steps.slice(0, 3), steps.slice(-3)];
  expect(mean(late, 'reward/interaction/gsm8k')).toBeGreaterThan(mean(early, 'reward/interaction/gsm8k') + 0.12);
  for (const step of steps) {
    // The interaction's score is the whole reward, and it ends the conversation where it is given.
    expect(step['reward/interaction/gsm8k']).toBeCloseTo(step['critic/score/mean']!, 5);
    expect(step['agent/end_reason/interaction_terminated']! / 128).toBeCloseTo(step['critic/score/mean']!, 5);
  }
  // Fewer mistakes, fewer second attempts.
  expect(mean(late, 'num_turns/mean')).toBeLessThan(mean(early, 'num_turns/mean'));
});
