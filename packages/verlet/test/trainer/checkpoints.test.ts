/** What checkpoints hold, what a run can go on from, and what is said when it cannot. */
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { beforeAll, expect, it } from 'vitest';
import { loadCausalLM, loadValueModel } from '../../src/models/index.js';
import { Checkpoints } from '../../src/trainer/checkpoints.js';
import { train } from '../../src/trainer/train.js';
import { countsDigits, type TinySetup, tinySetup } from './tiny.js';

let tiny: TinySetup;
beforeAll(async () => {
  tiny = await tinySetup();
});

const run = (name: string, steps: number, ...overrides: string[]) =>
  train({
    config: tiny.config(
      'algorithm.adv_estimator=gae',
      'trainer.save_freq=1',
      `trainer.total_training_steps=${steps}`,
      `trainer.default_local_dir=${tiny.folder}/${name}`,
      ...overrides,
    ),
    reward: countsDigits,
  });
const held = (name: string, step: number, member: string): string[] =>
  readdirSync(path.join(tiny.folder, name, `global_step_${step}`, member)).sort();

it('save_contents chooses the parts, of actor and critic apart', async () => {
  await run(
    'parts',
    1,
    'actor_rollout_ref.actor.checkpoint.save_contents=[model]',
    'critic.checkpoint.save_contents=[optimizer,extra,hf_model]',
  );
  expect(held('parts', 1, 'actor')).toEqual(['huggingface']);
  expect(held('parts', 1, 'critic')).toEqual(['huggingface', 'optimizer.safetensors', 'state.json']);
  // What is for others can be loaded by others.
  const critic = path.join(tiny.folder, 'parts/global_step_1/critic/huggingface');
  expect(JSON.parse(readFileSync(path.join(critic, 'config.json'), 'utf8')).architectures).toEqual([
    'Qwen2ForTokenClassification',
  ]);
  (await loadValueModel(critic)).dispose();
  (await loadCausalLM(path.join(tiny.folder, 'parts/global_step_1/actor/huggingface'))).dispose();
});

it('says what a checkpoint lacks, and goes on with what it has when told so', async () => {
  await run('lean', 1, 'actor_rollout_ref.actor.checkpoint.save_contents=[model,extra]');
  const wanting = run('lean', 2, 'actor_rollout_ref.actor.checkpoint.load_contents=[model,optimizer,extra]');
  await expect(wanting).rejects.toThrow(
    /lean\/global_step_1\/actor: it holds no state of the optimizer .*load_contents=\[model,extra\] goes on/,
  );
  const again = await run('lean', 2, 'actor_rollout_ref.actor.checkpoint.load_contents=[model,extra]');
  expect(again.globalStep).toBe(2);
});

it('with an adapter, hf_model is for others and model is what a run goes on from', async () => {
  const lora = 'actor_rollout_ref.model.lora_rank=2';
  const contents = 'actor_rollout_ref.actor.checkpoint.save_contents';
  await run('adapter', 1, lora, `${contents}=[hf_model,optimizer,extra]`);
  expect(held('adapter', 1, 'actor')).toEqual(['huggingface', 'optimizer.safetensors', 'state.json']);
  await expect(run('adapter', 2, lora)).rejects.toThrow(/it holds no lora_adapter: .*saved without 'model'/);
  await run('adapted', 1, lora);
  expect(held('adapted', 1, 'actor')).toContain('lora_adapter');
  expect((await run('adapted', 2, lora)).globalStep).toBe(2);
  await expect(run('adapted', 3)).rejects.toThrow(/it was trained with an adapter, this run has none/);
  await expect(run('adapted', 3, lora, 'critic.model.lora_rank=2')).rejects.toThrow(/critic: it holds no weights/);
});

it('names a damaged checkpoint and the one before it, which still works', async () => {
  await run('damaged', 2);
  const folder = path.join(tiny.folder, 'damaged');
  const weights = path.join(folder, 'global_step_2/actor/huggingface/model.safetensors');
  truncateSync(weights, 100);
  await expect(run('damaged', 3)).rejects.toThrow(
    /cannot resume from .*global_step_2: actor: .*trainer\.resume_from_path=.*global_step_1 goes on from the one before/,
  );
  const again = await run('damaged', 3, `trainer.resume_from_path=${folder}/global_step_1`);
  expect(again.globalStep).toBe(3);
  writeFileSync(path.join(folder, 'global_step_3/trainer_state.json'), '{"version": 1, "glo');
  await expect(run('damaged', 4)).rejects.toThrow(/global_step_3: trainer_state\.json: .*JSON/);
});

it('a save that fails leaves the one before, no rest of itself, and words that help', async () => {
  const root = path.join(tiny.folder, 'full');
  const settings = tiny.config(`trainer.default_local_dir=${root}`).trainer;
  const loader = { state: () => ({}) as never, restore: () => {} };
  let isFull = false;
  const member = {
    name: 'actor' as const,
    async saveCheckpoint(folder: string) {
      writeFileSync(path.join(folder, 'weights'), 'some');
      if (isFull) throw Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC' });
    },
    async loadCheckpoint() {},
  };
  const checkpoints = new Checkpoints(settings, [member], loader);
  await checkpoints.save({ globalStep: 1 });
  isFull = true;
  await expect(checkpoints.save({ globalStep: 2 })).rejects.toThrow(
    /global_step_2 could not be written: ENOSPC.*global_step_1 is the last that is whole; make room/,
  );
  expect(readdirSync(root).sort()).toEqual(['global_step_1', 'latest_checkpointed_iteration.txt']);
  expect(await checkpoints.resume({ globalStep: 0 })).toBe(1);
});

it('clears what a kill left half-written, not what another process writes', async () => {
  const root = path.join(tiny.folder, 'halves');
  const gone = path.join(root, 'global_step_7.tmp-4194303');
  const others = path.join(root, `global_step_7.tmp-${process.ppid}`);
  for (const folder of [gone, others]) mkdirSync(folder, { recursive: true });
  cpSync(tiny.train, path.join(gone, 'half'));
  const settings = tiny.config(`trainer.default_local_dir=${root}`).trainer;
  const checkpoints = new Checkpoints(settings, [], { state: () => ({}) as never, restore: () => {} });
  expect(await checkpoints.resume({ globalStep: 0 })).toBe(0);
  expect([existsSync(gone), existsSync(others)]).toEqual([false, true]);
});
