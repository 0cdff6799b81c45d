import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { batchPlan, ConfigError, composeConfig, renderBatchPlan } from './index.js';

interface Vector {
  name: string;
  input: Record<string, unknown>;
  expected: { ok?: boolean; error_contains?: string };
}
const vectors = JSON.parse(
  readFileSync(new URL('../../test/fixtures/vectors-config.json', import.meta.url), 'utf8'),
) as Vector[];

const needed = ['data.train_files=t', 'actor_rollout_ref.model.path=m'];
const compose = (...overrides: string[]) => composeConfig({ kind: 'ppo', overrides: [...needed, ...overrides] }).config;
const grpo = (...overrides: string[]) => compose('algorithm.adv_estimator=grpo', ...overrides);
const problems = (...overrides: string[]): string[] => {
  try {
    compose(...overrides);
  } catch (error) {
    if (error instanceof ConfigError) return error.problems.map(({ path, message }) => `${path}: ${message}`);
    throw error;
  }
  return [];
};

describe("verl's own checks", () => {
  const overridesOf = (input: Record<string, unknown>): string[] =>
    Object.entries(input).map(([key, value]) => {
      if (key === 'n_gpus') return `trainer.n_gpus_per_node=${value}`;
      if (key === 'train_batch_size') return `data.train_batch_size=${value}`;
      if (key === 'use_remove_padding') return `actor_rollout_ref.model.use_remove_padding=${value}`;
      return `actor_rollout_ref.actor.${key}=${value}`;
    });
  /** The peer's message, and the key that ours names instead. */
  const keys: Record<string, string> = {
    'you must enable `use_remove_padding`': 'actor_rollout_ref.actor.ulysses_sequence_parallel_size: ',
    'Please set at least one': 'actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu: set it',
    'must be >= n_gpus':
      'actor_rollout_ref.actor.ppo_micro_batch_size: 8 is less than one trajectory for each of 16 ranks',
  };

  it('has vectors to run', () => expect(vectors.length).toBeGreaterThanOrEqual(4));

  it.each(vectors.map((vector) => [vector.name, vector] as const))('%s', (_name, { input, expected }) => {
    const found = problems('algorithm.adv_estimator=grpo', ...overridesOf(input));
    if (expected.ok === true) expect(found).toEqual([]);
    else expect(found).toContainEqual(expect.stringContaining(keys[expected.error_contains!]!));
  });
});

describe('the batch plan', () => {
  it('counts prompts, trajectories, optimiser steps and micro-steps (verl: mini-batch x n / ranks)', () => {
    const config = grpo(
      'data.train_batch_size=1024',
      'actor_rollout_ref.rollout.n=5',
      'actor_rollout_ref.actor.ppo_mini_batch_size=256',
      'actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=40',
      'actor_rollout_ref.actor.ppo_epochs=2',
      'actor_rollout_ref.actor.use_kl_loss=true',
      'actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=40',
      'actor_rollout_ref.ref.log_prob_micro_batch_size=160',
      'trainer.n_gpus_per_node=8',
      'trainer.total_epochs=15',
    );
    const plan = batchPlan(config, 8, { trainRows: 7473 });
    expect(plan).toMatchObject({
      promptsPerStep: 1024,
      trajectoriesPerStep: 5120,
      trajectoriesPerRank: 640,
      stepsPerEpoch: 7,
      totalSteps: 105,
      critic: null,
    });
    expect(plan.actor).toEqual({
      miniBatchPrompts: 256,
      miniBatchTrajectories: 1280,
      miniBatchTrajectoriesPerRank: 160,
      optimizerSteps: 8,
      microBatchTrajectoriesPerRank: 40,
      microStepsPerOptimizerStep: 4,
      maxTokensPerMicroBatch: null,
      epochs: 2,
    });
    expect(plan.oldLogProb).toEqual({ trajectoriesPerPass: 40, passesPerRank: 16, maxTokensPerPass: null });
    expect(plan.refLogProb).toEqual({ trajectoriesPerPass: 20, passesPerRank: 32, maxTokensPerPass: null });
    expect(renderBatchPlan(plan)).toBe(`batch plan
  one step     1024 prompts x 5 samples = 5120 trajectories on 8 ranks, 640 each
  log-probs    16 passes of 40 trajectories per rank
  reference    32 passes of 20 trajectories per rank
  actor        8 optimiser steps in 2 epochs of 256 prompts = 1280 trajectories, 4 micro-steps of 40 per rank
  epoch        7 steps
  whole run    105 steps, 840 optimiser steps of the actor`);
  });

  it('fills by tokens when no size is given, and says so', () => {
    const text = renderBatchPlan(batchPlan(compose()));
    expect(text).toContain(
      'critic       4 optimiser steps of 256 prompts = 256 trajectories, micro-steps by tokens, up to 32768 per rank',
    );
  });

  it('whatever loads is cut without rest', () => {
    const size = fc.integer({ min: 1, max: 24 });
    fc.assert(
      fc.property(size, size, size, size, fc.constantFrom(1, 2, 3, 4, 8), (prompts, mini, micro, n, ranks) => {
        const words = [
          `data.train_batch_size=${prompts}`,
          `actor_rollout_ref.actor.ppo_mini_batch_size=${mini}`,
          `actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=${micro}`,
          `actor_rollout_ref.rollout.n=${n}`,
          `trainer.n_gpus_per_node=${ranks}`,
          'algorithm.adv_estimator=grpo',
        ];
        const divides =
          prompts % mini === 0 &&
          (prompts * n) % ranks === 0 &&
          (mini * n) % ranks === 0 &&
          ((mini * n) / ranks) % micro === 0;
        expect(problems(...words).length === 0).toBe(divides);
        if (!divides) return;
        const plan = batchPlan(compose(...words));
        const { actor } = plan;
        expect(
          actor.optimizerSteps * actor.microStepsPerOptimizerStep! * actor.microBatchTrajectoriesPerRank! * ranks,
        ).toBe(prompts * n);
        expect(plan.trajectoriesPerRank * ranks).toBe(plan.trajectoriesPerStep);
      }),
      { numRuns: 60 },
    );
  });

  it('refuses a number of ranks that the configuration was not checked for', () => {
    expect(() => batchPlan(compose(), 3)).toThrow(
      /1024 prompts x 1 samples = 1024 trajectories do not divide among 3 ranks/,
    );
  });
});

describe('checks of settings against each other', () => {
  const group = 'algorithm.adv_estimator=grpo';
  it.each([
    [
      ['data.train_batch_size=16'],
      'actor_rollout_ref.actor.ppo_mini_batch_size: 256 prompts per optimiser step, but a step has only data.train_batch_size=16',
    ],
    [
      ['data.train_batch_size=100', 'actor_rollout_ref.actor.ppo_mini_batch_size=30', group],
      'is not a multiple of it (30)',
    ],
    [
      [
        'actor_rollout_ref.actor.ppo_micro_batch_size=4',
        'actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4',
        group,
      ],
      'is set together with actor_rollout_ref.actor.ppo_micro_batch_size',
    ],
    [
      ['actor_rollout_ref.rollout.log_prob_use_dynamic_bsz=false', group],
      'actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu: set it',
    ],
    [['critic.enable=false'], 'critic.enable: gae needs a critic'],
    [['algorithm.adv_estimator=grpo_passk'], 'actor_rollout_ref.rollout.n: grpo_passk'],
    [['algorithm.adv_estimator=optimal_token_baseline'], 'calculate_sum_pi_squared'],
    [['algorithm.adv_estimator=gdpo', 'actor_rollout_ref.rollout.n=2'], 'algorithm.gdpo_reward_keys'],
    [['actor_rollout_ref.actor.policy_loss.loss_mode=dro', group], 'dro_beta: the dro loss needs a positive number'],
    [['actor_rollout_ref.rollout.val_kwargs.do_sample=true', group], 'val_kwargs.temperature'],
    [['actor_rollout_ref.rollout.val_kwargs.n=4', group], 'greedy validation gives the same response'],
    [['actor_rollout_ref.rollout.max_model_len=100', group], 'is less than prompt_length + response_length = 1024'],
    [
      ['data.max_response_length=20000', group],
      'ppo_max_token_len_per_gpu: 16384 tokens cannot hold one trajectory of up to 512 + 20000',
    ],
    [['trainer.resume_mode=resume_path', group], 'trainer.resume_from_path'],
    [['trainer.val_only=true', group], 'data.val_files: trainer.val_only needs validation rows'],
    [['data.train_weights=[1,2]', group], '2 weights for 1 training file'],
    [['reward_model.enable=true', group], 'reward_model.model.path'],
    [['algorithm.filter_groups.low=0.9', 'algorithm.filter_groups.high=0.1', group], 'no group could pass'],
    [['actor_rollout_ref.rollout.name=http', group], 'server.base_url'],
  ])('%j', (overrides, message) => {
    expect(problems(...overrides)).toContainEqual(expect.stringContaining(message));
  });

  it('warns of what is allowed but pointless', () => {
    const { notices } = composeConfig({
      kind: 'ppo',
      overrides: [
        ...needed,
        group,
        'actor_rollout_ref.actor.use_kl_loss=true',
        'algorithm.use_kl_in_reward=true',
        'trainer.test_freq=5',
      ],
    });
    expect(notices).toEqual([
      expect.stringContaining('there is nothing to compare'),
      'KL counts twice: in the loss and in the reward',
      expect.stringContaining('trainer.test_freq has no effect'),
    ]);
  });

  it('names the origin of the value in a failed check', () => {
    expect(() => compose('data.train_batch_size=100')).toThrow(/ppo_mini_batch_size: 256 prompts/);
    expect(() => compose('actor_rollout_ref.actor.ppo_mini_batch_size=3')).toThrow(
      /\(command line: actor_rollout_ref\.actor\.ppo_mini_batch_size=3\)/,
    );
  });

  it('checks fine-tuning as well', () => {
    const sft = (...overrides: string[]) =>
      composeConfig({ kind: 'sft', overrides: ['data.train_files=t', 'model.partial_pretrain=m', ...overrides] });
    expect(sft('data.micro_batch_size=8').config.data.micro_batch_size).toBe(8);
    expect(sft('data.messages_key=chat', 'model.path=other').config).toMatchObject({
      data: { multiturn: { enable: true, messages_key: 'chat' } },
      model: { partial_pretrain: 'other' },
    });
    expect(() => sft('data.train_batch_size=6')).toThrow(/4 examples do not divide the 6/);
    expect(() => sft('data.train_batch_size=2')).not.toThrow();
    expect(() => sft('trainer.n_gpus_per_node=3')).toThrow(/256 examples do not divide among 3 ranks/);
    expect(() => sft('data.use_dynamic_bsz=true', 'data.max_token_len_per_gpu=100')).toThrow(/cannot hold one example/);
  });
});
