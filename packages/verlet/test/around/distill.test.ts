import { existsSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { composeConfig } from '../../src/config/index.js';
import { distill } from '../../src/trainer/distill/index.js';
import { readRecords } from '../../src/trainer/trackers/index.js';
import { makeTinyModel, temporaryFolder } from './tiny-model.js';

const root = temporaryFolder('distill');
const at = (name: string): string => path.join(root, name);

beforeAll(async () => {
  await makeTinyModel(at('student'), { seed: 1 });
  await makeTinyModel(at('teacher'), { seed: 2, layers: 1 });
  await makeTinyModel(at('other'), { seed: 3 });
  const rows = Array.from({ length: 16 }, (_, k) => ({
    data_source: k % 2 ? 'mine' : 'yours',
    prompt: [{ role: 'user', content: `What is ${k} + 1?` }],
    reward_model: { ground_truth: String(k + 1) },
  }));
  writeFileSync(at('prompts.jsonl'), rows.map((row) => JSON.stringify(row)).join('\n'));
});

const loss = 'distillation.distillation_loss';
function configOf(name: string, ...more: string[]) {
  return composeConfig({
    kind: 'ppo',
    overrides: [
      `data.train_files=${at('prompts.jsonl')}`,
      `actor_rollout_ref.model.path=${at('student')}`,
      'data.train_batch_size=8',
      'data.max_prompt_length=64',
      'data.max_response_length=8',
      'actor_rollout_ref.rollout.n=4',
      'actor_rollout_ref.actor.ppo_mini_batch_size=8',
      'actor_rollout_ref.actor.optim.lr=3e-3',
      'actor_rollout_ref.actor.use_dynamic_bsz=true',
      'distillation.enabled=true',
      `${loss}.use_task_rewards=false`,
      'algorithm.adv_estimator=grpo',
      'trainer.total_training_steps=16',
      'trainer.logger=[]',
      'trainer.device=cpu',
      'trainer.val_before_train=false',
      `trainer.default_local_dir=${at(name)}`,
      ...more,
    ],
  }).config;
}
const teacher = `+distillation.teacher_models.big.model_path=`;

async function divergences(name: string, ...more: string[]): Promise<number[]> {
  await distill({ config: configOf(name, ...more) });
  return readRecords(path.join(at(name), 'metrics.jsonl')).map(({ data }) => data['distillation/kl']!);
}
const mean = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0) / values.length;

describe('distill', () => {
  it.each([
    ['as a loss', [`${loss}.loss_mode=k2`]],
    ['over all its tokens', [`${loss}.loss_mode=forward_kl_topk`, `${loss}.topk=400`]],
    ['over its likeliest tokens', [`${loss}.loss_mode=forward_kl_topk_tail`, `${loss}.topk=64`]],
    ['over its likeliest tokens reversed', [`${loss}.loss_mode=reverse_kl_topk_tail`, `${loss}.topk=64`]],
    ['as a reward', [`${loss}.loss_mode=k1`, `${loss}.use_policy_gradient=true`, `${loss}.loss_max_clamp=10`]],
  ])('brings the student closer to the teacher, %s', async (name, more) => {
    const kl = await divergences(name.replaceAll(' ', '-'), `${teacher}${at('teacher')}`, ...more);
    expect(kl).toHaveLength(16);
    expect(mean(kl.slice(-4))).toBeLessThan(0.8 * mean(kl.slice(0, 2)));
  });

  it('a student that is its teacher has nothing to learn', async () => {
    // Sampling and the teacher's pass round differently, and Adam makes whole steps of that: at a rate where they do not count.
    const more = ['trainer.total_training_steps=2', 'actor_rollout_ref.actor.optim.lr=1e-5'];
    const kl = await divergences('same', `${teacher}${at('student')}`, ...more);
    for (const value of kl) expect(Math.abs(value)).toBeLessThan(1e-4);
    const [first] = readRecords(path.join(at('same'), 'metrics.jsonl'));
    expect(Math.abs(kl[0]!)).toBeLessThan(1e-6);
    expect(first!.data['actor/grad_norm']).toBeLessThan(1e-5);
  });

  it('rows go to the teacher that their column names; the run saves and goes on', async () => {
    const two = [
      `+distillation.teacher_models.a={model_path: ${at('teacher')}, key: mine}`,
      `+distillation.teacher_models.b={model_path: ${at('other')}, key: yours}`,
      'trainer.save_freq=1',
    ];
    await divergences('two', ...two, 'trainer.total_training_steps=1');
    const kl = await divergences('two', ...two, 'trainer.total_training_steps=2');
    expect(kl).toHaveLength(2);
    expect(existsSync(at('two/global_step_2/actor/huggingface/config.json'))).toBe(true);
  });

  it('says what is wrong', async () => {
    const wrong = async (...more: string[]): Promise<string> =>
      distill({ config: configOf('wrong', ...more) }).then(
        () => '',
        (error: Error) => error.message,
      );
    expect(await wrong()).toContain('needs a teacher');
    expect(await wrong(`${teacher}./nowhere`)).toContain('nowhere');
    expect(await wrong(`${teacher}${at('teacher')}`, `${loss}.loss_mode=sideways_kl`)).toContain('forward_kl_topk');
    const topK = [`${loss}.loss_mode=forward_kl_topk`, `${loss}.use_policy_gradient=true`];
    expect(await wrong(`${teacher}${at('teacher')}`, ...topK)).toContain('is a loss');
    expect(await wrong(`${teacher}${at('teacher')}`, `${loss}.loss_max_clamp=1`)).toContain(
      'use_policy_gradient=true or a top-k loss_mode only',
    );
    expect(await wrong(`${teacher}${at('teacher')}`, 'actor_rollout_ref.actor.use_kl_loss=true')).toContain(
      'takes the place',
    );
    const single = `+distillation.teacher_models.a={model_path: ${at('teacher')}, key: nobody}`;
    expect(await wrong(single)).toMatch(/no teacher has key "(mine|yours)"/);
  });
});
