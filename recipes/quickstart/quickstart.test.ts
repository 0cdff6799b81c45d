import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';

it.each(['grpo', 'gae'])('runs from nothing with %s', (estimator) => {
  const folder = mkdtempSync(path.join(tmpdir(), 'verlet-quickstart-'));
  const words = [
    `algorithm.adv_estimator=${estimator}`,
    'trainer.total_training_steps=2',
    'trainer.test_freq=2',
    'data.val_max_samples=8',
    'data.train_batch_size=4',
    'actor_rollout_ref.actor.ppo_mini_batch_size=4',
    'critic.ppo_mini_batch_size=4',
  ];
  const result = spawnSync(
    process.execPath,
    [fileURLToPath(new URL('./run.mjs', import.meta.url)), '--folder', folder, '--sft-steps', '2', ...words],
    { encoding: 'utf8', timeout: 100_000 },
  );
  expect(result.status, result.stderr).toBe(0);
  const lines = readFileSync(path.join(folder, 'run', 'metrics.jsonl'), 'utf8')
    .trim()
    .split('\n');
  expect(JSON.parse(lines.at(-1)!).step).toBe(2);
  expect(existsSync(path.join(folder, 'run', 'global_step_2', 'actor', 'huggingface', 'model.safetensors'))).toBe(true);
});
