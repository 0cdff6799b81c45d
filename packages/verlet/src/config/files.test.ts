// biome-ignore-all lint/suspicious/noTemplateCurlyInString: interpolations of the configuration language
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { describeSource } from './assignment.js';
import { composeConfig } from './compose.js';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'verlet-config-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const write = (name: string, text: string): string => {
  const file = join(folder, name);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
  return file;
};
const compose = (files: string[], overrides: string[] = []) =>
  composeConfig({ kind: 'ppo', files, overrides, allowMissing: true, skipChecks: true });

describe('config files', () => {
  it('merge in order, then the command line, and every value knows its line', () => {
    const first = write('a.yaml', 'trainer:\n  total_epochs: 1\n  save_freq: 5\ndata:\n  train_files: [a.parquet]\n');
    const second = write('b.yaml', '# comment\ntrainer:\n  total_epochs: 2\n');
    const { config, provenance } = compose([first, second], ['trainer.test_freq=9']);
    expect(config.trainer).toMatchObject({ total_epochs: 2, save_freq: 5, test_freq: 9 });
    const where = (key: string) => describeSource(provenance.get(key)?.source ?? { kind: 'default' });
    expect(where('trainer.total_epochs')).toBe(`${second}:3`);
    expect(where('trainer.save_freq')).toBe(`${first}:3`);
    expect(where('trainer.test_freq')).toBe('command line: trainer.test_freq=9');
    expect(where('trainer.nnodes')).toBe('default');
  });

  it('leave emptied blocks of newer verl files alone, but take null inside reward_kwargs', () => {
    const first = write(
      'a.yaml',
      'custom_reward_function:\n  path: a.ts\n  reward_kwargs: { url: x, deep: { url: y } }\n',
    );
    const second = write(
      'b.yaml',
      'custom_reward_function:\n  path: null\n  reward_kwargs:\n    url: null\n    deep:\n      url: null\n',
    );
    expect(compose([first, second]).config.custom_reward_function).toMatchObject({
      path: 'a.ts',
      reward_kwargs: { url: null, deep: { url: null } },
    });
  });

  it('replace lists, merge free-form keys, and take anchors and merge keys', () => {
    const file = write(
      'a.yaml',
      [
        'data: { apply_chat_template_kwargs: { a: 1, b: 2 } }',
        'critic:',
        '  optim: &opt { lr: 3e-4, weight_decay: 0.5 }',
        'actor_rollout_ref:',
        '  actor:',
        '    optim:',
        '      weight_decay: 0.1',
        '      <<: *opt',
      ].join('\n'),
    );
    const { config } = compose(
      [file],
      ['+data.apply_chat_template_kwargs.c=3', 'data.apply_chat_template_kwargs={b:9}'],
    );
    expect(config.data.apply_chat_template_kwargs).toEqual({ a: 1, b: 9, c: 3 });
    expect(config.actor_rollout_ref.actor.optim).toMatchObject({ lr: 3e-4, weight_decay: 0.1 });
    expect(config.critic.optim).toMatchObject({ lr: 3e-4, weight_decay: 0.5 });
  });

  it("compose defaults lists, groups, packages and _self_ as Hydra does, with verl's names built in", () => {
    write('base.yaml', 'trainer: { total_epochs: 1, save_freq: 1, test_freq: 1 }\n');
    write('actor/small.yaml', 'ppo_mini_batch_size: 8\noptim: { lr: 1e-5 }\n');
    write('actor/large.yaml', 'defaults: [small]\nppo_mini_batch_size: 64\n');
    write('late/run.yaml', '# @package _global_\ntrainer: { test_freq: 7 }\n');
    const file = write(
      'run.yaml',
      [
        'hydra:',
        '  searchpath: [file://verl/trainer/config]',
        'defaults:',
        '  - ppo_trainer',
        '  - base',
        '  - actor@actor_rollout_ref.actor: small',
        '  - optional actor@nowhere: missing',
        '  - _self_',
        '  - late: run',
        'trainer: { save_freq: 3, test_freq: 3 }',
      ].join('\n'),
    );
    const { config } = compose([file]);
    expect(config.trainer).toMatchObject({ total_epochs: 1, save_freq: 3, test_freq: 7 });
    expect(config.actor_rollout_ref.actor).toMatchObject({ ppo_mini_batch_size: 8, optim: { lr: 1e-5 } });

    const large = compose([file], ['actor@actor_rollout_ref.actor=large']).config;
    expect(large.actor_rollout_ref.actor).toMatchObject({ ppo_mini_batch_size: 64, optim: { lr: 1e-5 } });
    const without = compose([file], ['~actor@actor_rollout_ref.actor']).config;
    expect(without.actor_rollout_ref.actor.ppo_mini_batch_size).toBe(256);
  });

  it('a file that inherits another may choose a different group option', () => {
    write('actor/small.yaml', 'ppo_mini_batch_size: 8\n');
    write('actor/large.yaml', 'ppo_mini_batch_size: 64\n');
    write('base.yaml', 'defaults:\n  - actor@actor_rollout_ref.actor: small\n');
    const file = write('run.yaml', 'defaults:\n  - base\n  - override actor@actor_rollout_ref.actor: large\n');
    expect(compose([file]).config.actor_rollout_ref.actor.ppo_mini_batch_size).toBe(64);
  });

  it('choose a built-in group option without any file', () => {
    const { config } = compose([], ['actor@actor_rollout_ref.actor=megatron_actor']);
    expect(config.actor_rollout_ref.actor.strategy).toBe('megatron');
  });

  it.each([
    ['trainer: [', /run\.yaml:1: not valid YAML/],
    ['trainer:\n  nnodes: 1\n  nnodes: 2\n', /run\.yaml:3: not valid YAML/],
    ['- a\n- b\n', /holds keys and values, not a list/],
    ['defaults:\n  - nowhere\n', /run\.yaml:2: defaults name nowhere, but there is no nowhere\.yaml/],
    ['defaults: [run]\n', /config files include each other: .*run\.yaml -> .*run\.yaml/],
    [
      'trainer:\n  total_epoch: 3\n',
      /trainer\.total_epoch: there is no such key; did you mean trainer\.total_epochs\? \(.*run\.yaml:2\)/,
    ],
  ])('say what is wrong with %j, and where', (text, message) => {
    expect(() => compose([write('run.yaml', text)])).toThrow(message);
  });

  it('are missed by name', () => {
    expect(() => compose([join(folder, 'ppo_trianer.yaml')])).toThrow(/does not exist; is ppo_trainer meant/);
  });
});
