import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { train } from 'verlet';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { agent as aiSdkAgent } from './own-agent-ai-sdk/run.mjs';
import { agent as openAiAgent } from './own-agent-openai/run.mjs';
import { configFor } from './run-options.mjs';
import { prepare } from './tool-agent/prepare.mjs';
import { calculator, settings } from './tool-agent/run.mjs';

const folder = mkdtempSync(join(tmpdir(), 'verlet-calculator-'));
let files: { train: string; test: string; model: string };

// One model for all: it knows how to call the calculator and prefers to guess.
beforeAll(async () => {
  files = await prepare(join(folder, 'start'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function short(name: string, ...overrides: string[]) {
  return configFor(files, join(folder, name), [
    ...settings,
    'data.train_batch_size=8',
    'actor_rollout_ref.actor.ppo_mini_batch_size=8',
    'trainer.total_training_steps=6',
    'trainer.test_freq=6',
    'trainer.save_freq=-1',
    'trainer.logger=[]',
    ...overrides,
  ]);
}

/** Every step's metrics, step 0 being the validation before training. */
function history() {
  const steps: Record<string, number>[] = [];
  return { steps, tracker: { name: 'history', log: (metrics: object) => void steps.push({ ...metrics }) } };
}

const SCORE = 'val-core/openai/gsm8k/reward/mean@1';

it('a tool is learnt: the model stops guessing and calls the calculator', async () => {
  const { steps, tracker } = history();
  await train({ config: short('tool'), tools: [calculator], trackers: [tracker] });
  const [before, first, last] = [steps[0]!, steps[1]!, steps.at(-1)!];
  expect(before[SCORE]).toBeLessThan(0.3);
  expect(last[SCORE]).toBeGreaterThan(before[SCORE]! + 0.4);
  expect(last['agent/tool_calls_per_trajectory/mean']).toBeGreaterThan(
    first['agent/tool_calls_per_trajectory/mean']! + 0.3,
  );
  expect(last['agent/tool_status/ok']).toBeGreaterThan(0);
  expect(last['agent/tool_agent/tokenization_mismatch']).toBe(0);
  // What was injected is context: its tokens are there and not trained.
  expect(last['state_tokens/coverage']).toBeLessThan(1);
  expect(last['training/rollout_probs_diff_max']).toBeLessThan(1e-4);
});

it.each([
  ['the Vercel AI SDK', aiSdkAgent],
  ['the openai client, over HTTP', openAiAgent],
])('an agent on %s is trained as it is', async (name, agent) => {
  const { steps, tracker } = history();
  await train({ config: short(name.replaceAll(/\W/g, '')), agent, trackers: [tracker] });
  const [before, last] = [steps[0]!, steps.at(-1)!];
  expect(before[SCORE]).toBeLessThan(0.3);
  expect(last[SCORE]).toBeGreaterThan(before[SCORE]! + 0.4);
  expect(last['agent/programs']).toBe(64);
  // Now and then a sample rambles until its conversation is too long: that is its program's failure, not the run's.
  expect(last['agent/program_errors']).toBeLessThan(20);
  // A conversation with a tool call is one trajectory of two calls, the second going on from the first one's tokens.
  expect(last['agent/trajectories']).toBe(64);
  expect(last['agent/program/calls']).toBeGreaterThan(1.3);
  expect(last['agent/program/reused_tokens']).toBeGreaterThan(0);
  expect(last['training/rollout_probs_diff_max']).toBeLessThan(1e-4);
});
