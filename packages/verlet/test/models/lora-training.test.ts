/** A run that trains adapters: the base is its reference, checkpoints hold both forms, and it resumes to the same bits. */
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { openSafetensors } from '@verlet/torch';
import { beforeAll, expect, it } from 'vitest';
import { loadAdapter, loadCausalLM } from '../../src/models/index.js';
import { train } from '../../src/trainer/train.js';
import { countsDigits, type TinySetup, tinySetup } from '../trainer/tiny.js';
import { maxDifference, packedLogits } from './fixture.js';

let tiny: TinySetup;
beforeAll(async () => {
  tiny = await tinySetup();
});

const settings = (run: string, ...more: string[]) =>
  tiny.config(
    'actor_rollout_ref.model.lora_rank=4',
    'actor_rollout_ref.model.lora_alpha=8',
    'actor_rollout_ref.model.exclude_modules=[k_proj]',
    'critic.model.lora_rank=2',
    'algorithm.adv_estimator=gae',
    'actor_rollout_ref.actor.use_kl_loss=true',
    'trainer.save_freq=1',
    'trainer.total_training_steps=3',
    `trainer.default_local_dir=${run}`,
    ...more,
  );

it('trains, saves an adapter and a merged model, and resumes to the same weights', async () => {
  const whole = path.join(tiny.folder, 'lora');
  const kl: number[] = [];
  const differences: number[] = [];
  await train({
    config: settings(whole),
    reward: countsDigits,
    trackers: [
      {
        name: 'kept',
        log: (metrics) => {
          kl.push(metrics['actor/kl_loss']!);
          differences.push(metrics['training/rollout_probs_diff_max']!);
        },
      },
    ],
  });
  expect(Math.abs(kl[0]!)).toBeLessThan(1e-6);
  expect(Math.abs(kl[2]!)).toBeGreaterThan(1e-6);
  // The engine samples from the adapted model, not from the base.
  for (const difference of differences) expect(difference).toBeLessThan(1e-4);

  const saved = path.join(whole, 'global_step_3', 'actor');
  const rows = [[1, 2, 3, 4, 5, 6]];
  const merged = await loadCausalLM(path.join(saved, 'huggingface'));
  const adapted = await loadCausalLM(tiny.model);
  const base = packedLogits(adapted, rows);
  const lora = await loadAdapter(adapted, path.join(saved, 'lora_adapter'));
  expect([...lora.adapters()].some(([at]) => at.endsWith('k_proj'))).toBe(false);
  expect(maxDifference(packedLogits(adapted, rows), packedLogits(merged, rows))).toBeLessThan(1e-5);
  expect(maxDifference(base, packedLogits(merged, rows))).toBeGreaterThan(1e-4);
  for (const model of [merged, adapted]) model.dispose();

  const parted = path.join(tiny.folder, 'lora-parted');
  const stop = new AbortController();
  await train({
    config: settings(parted),
    reward: countsDigits,
    signal: stop.signal,
    trackers: [{ name: 'stop', log: (_, step) => void (step === 1 && stop.abort()) }],
  });
  expect(existsSync(path.join(parted, 'global_step_3'))).toBe(false);
  await train({ config: settings(parted), reward: countsDigits });
  for (const file of ['actor/lora_adapter/adapter_model.safetensors', 'critic/lora_adapter/adapter_model.safetensors'])
    expect(
      readFileSync(path.join(parted, 'global_step_3', file)).equals(
        readFileSync(path.join(whole, 'global_step_3', file)),
      ),
      file,
    ).toBe(true);
  expect(openSafetensors(path.join(saved, 'lora_adapter', 'adapter_model.safetensors')).names()[0]).toMatch(
    /^base_model\.model\.model\.layers\.0\./,
  );
});

it('starts from an adapter folder', async () => {
  const run = path.join(tiny.folder, 'lora-from');
  const adapter = path.join(tiny.folder, 'lora', 'global_step_3', 'actor', 'lora_adapter');
  const { globalStep } = await train({
    config: settings(run, `actor_rollout_ref.model.lora_adapter_path=${adapter}`, 'trainer.total_training_steps=1'),
    reward: countsDigits,
  });
  expect(globalStep).toBe(1);
});
