/**
 * A key of the configuration either does something or is declared without effect, which a run says when somebody sets it. Runs on
 * a configuration that records who looks at it show what is read; what only other runs read is named here with the place that does.
 */
import { readdirSync, readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { metaOf } from '../../src/config/field.js';
import { schemas } from '../../src/config/schema/index.js';
import { leavesOf } from '../../src/config/tree.js';
import { train } from '../../src/trainer/train.js';
import { countsDigits, tinySetup } from './tiny.js';

const source = fileURLToPath(new URL('../../src', import.meta.url));

/** Keys below a prefix, and the file or folder in which each of their names must stand. */
const READ_BY: readonly [prefix: string, place: string][] = [
  ['data.custom_cls.', 'data'],
  ['data.max_', 'agents/setup.ts'],
  ['actor_rollout_ref.model.', 'workers'],
  // Handed over whole: the update picks what it needs.
  ['actor_rollout_ref.actor.policy_loss.', 'algorithms'],
  ['actor_rollout_ref.actor.calculate_sum_pi_squared', 'config/checks.ts'],
  ['actor_rollout_ref.actor.optim.', 'workers/optimizer-step.ts'],
  ['actor_rollout_ref.actor.clip_ratio', 'algorithms'],
  ['actor_rollout_ref.actor.tau_', 'algorithms'],
  ['actor_rollout_ref.actor.', 'workers'],
  ['actor_rollout_ref.ref.', 'workers'],
  ['actor_rollout_ref.rollout.name', 'config/checks.ts'],
  ['actor_rollout_ref.rollout.server.', 'workers/rollout-engine.ts'],
  ['actor_rollout_ref.rollout.val_kwargs.', 'trainer/rows.ts'],
  ['critic.', 'workers'],
  ['reward_model.', 'trainer/reward-setup.ts'],
  ['reward_model.reward_kwargs.', 'rewards'],
  ['reward_model.judge.', 'rewards/judges'],
  ['reward_model.judge.', 'trainer/judge-setup.ts'],
  ['custom_reward_function.', 'rewards'],
  ['algorithm.kl_ctrl.', 'algorithms'],
  ['algorithm.rollout_correction.', 'algorithms'],
  ['algorithm.pf_ppo.', 'algorithms'],
  ['algorithm.', 'algorithms'],
  ['algorithm.filter_groups.', 'trainer/collect.ts'],
  ['distillation.', 'trainer/distill'],
  ['distillation.enabled', 'cli/commands/train.ts'],
  ['trainer.', 'trainer'],
  ['ray_init.', 'trainer/worker-groups.ts'],
  ['global_profiler.', 'trainer/trace'],
];

/** The person's own room. */
const FREE = ['custom'];

function textOf(place: string): string {
  const at = path.join(source, place);
  if (statSync(at).isFile()) return readFileSync(at, 'utf8');
  return readdirSync(at, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts') && !file.endsWith('.test.ts'))
    .map((file) => readFileSync(path.join(at, file), 'utf8'))
    .join('\n');
}

/** The same values; every key that is asked for by name is remembered, those that a spread copies are not. */
function recorded<T>(value: T, read: Set<string>, at: readonly string[] = []): T {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  let copied: string | symbol | null = null;
  return new Proxy(value as Record<string, unknown>, {
    getOwnPropertyDescriptor(target, key) {
      copied = key;
      return Reflect.getOwnPropertyDescriptor(target, key);
    },
    get(target, key) {
      const isCopy = copied === key;
      copied = null;
      if (key === 'toJSON') return () => target;
      if (typeof key !== 'string') return Reflect.get(target, key);
      if (!isCopy) read.add([...at, key].join('.'));
      return recorded(target[key], read, [...at, key]);
    },
  }) as T;
}

it('reads every key that is not declared to be without effect', async () => {
  const tiny = await tinySetup();
  const read = new Set<string>();
  const runs = [
    [
      `data.val_files=${tiny.train}`,
      'actor_rollout_ref.actor.use_kl_loss=true',
      'trainer.save_freq=1',
      'trainer.test_freq=1',
    ],
    [
      'algorithm.adv_estimator=gae',
      'algorithm.use_kl_in_reward=true',
      'algorithm.filter_groups.enable=true',
      'algorithm.use_pf_ppo=true',
      'algorithm.rollout_correction.rollout_is=token',
      'trainer.save_freq=1',
    ],
    [
      'actor_rollout_ref.model.lora_rank=2',
      'skip.rollout.enable=true',
      `skip.rollout.dump_dir=${tiny.folder}/stored`,
      `trainer.rollout_data_dir=${tiny.folder}/rollouts`,
    ],
  ];
  for (const [k, words] of runs.entries()) {
    const run = ['trainer.total_training_steps=1', `trainer.default_local_dir=${tiny.folder}/keys-${k}`];
    await train({ config: recorded(tiny.config(...words, ...run), read), reward: countsDigits });
  }
  const texts = new Map(READ_BY.map(([, place]) => [place, textOf(place)]));
  const isReadElsewhere = (key: string): boolean => {
    const name = new RegExp(`\\b${key.split('.').at(-1)}\\b`);
    return READ_BY.some(([prefix, place]) => key.startsWith(prefix) && name.test(texts.get(place)!));
  };
  const silent = leavesOf(schemas.ppo)
    .filter(({ schema }) => metaOf(schema).inert === undefined)
    .map(({ path: segments }) => segments.join('.'))
    .filter((key) => !read.has(key) && !FREE.includes(key) && !isReadElsewhere(key));
  expect(silent).toEqual([]);
});
