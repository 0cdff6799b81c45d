import { createHash } from 'node:crypto';
import { cpSync, existsSync, readFileSync, rmSync } from 'node:fs';
import path from 'node:path';
import { liveTensors } from '@verlet/torch';
import { beforeAll, describe, expect, it } from 'vitest';
import { ADVANTAGE_ESTIMATORS, POLICY_LOSSES } from '../../src/config/index.js';
import { train } from '../../src/trainer/train.js';
import { countsDigits, type TinySetup, tinySetup } from './tiny.js';

let tiny: TinySetup;
beforeAll(async () => {
  tiny = await tinySetup();
});

const weightsOf = (run: string, step: number): string =>
  createHash('sha256')
    .update(readFileSync(path.join(run, `global_step_${step}`, 'actor', 'huggingface', 'model.safetensors')))
    .digest('hex');

describe('training', () => {
  it('raises the reward', async () => {
    const scores: number[] = [];
    const config = tiny.config(
      'trainer.total_training_steps=25',
      'data.train_batch_size=16',
      'actor_rollout_ref.actor.ppo_mini_batch_size=16',
      `trainer.default_local_dir=${tiny.folder}/learns`,
    );
    await train({
      config,
      reward: countsDigits,
      trackers: [{ name: 'test', log: (metrics) => void scores.push(metrics['critic/score/mean']!) }],
    });
    const mean = (values: number[]): number => values.reduce((a, b) => a + b, 0) / values.length;
    expect(mean(scores.slice(-5))).toBeGreaterThan(mean(scores.slice(0, 5)) + 0.25);
  });

  it.each(ADVANTAGE_ESTIMATORS)('runs with estimator %s', async (estimator) => {
    const extra = [
      ...(estimator === 'gdpo' ? ['algorithm.gdpo_reward_keys=[digits]'] : []),
      ...(estimator.includes('token_baseline') ? ['actor_rollout_ref.actor.calculate_sum_pi_squared=true'] : []),
    ];
    const config = tiny.config(
      `algorithm.adv_estimator=${estimator}`,
      ...extra,
      `trainer.default_local_dir=${tiny.folder}/est-${estimator}`,
    );
    const result = await train({
      config,
      reward: (input) => ({ score: countsDigits(input), digits: countsDigits(input) }),
    });
    expect(result.globalStep).toBe(3);
    expect(Number.isFinite(result.metrics['actor/grad_norm'])).toBe(true);
    expect(result.metrics['training/rollout_probs_diff_max']).toBeLessThan(1e-4);
  });

  it.each(POLICY_LOSSES)('runs with policy loss %s', async (loss) => {
    const extra =
      loss === 'dro'
        ? ['actor_rollout_ref.actor.policy_loss.dro_beta=0.1']
        : loss === 'bypass_mode'
          ? ['algorithm.rollout_correction.bypass_mode=true']
          : [];
    const config = tiny.config(
      `actor_rollout_ref.actor.policy_loss.loss_mode=${loss}`,
      'actor_rollout_ref.actor.ppo_mini_batch_size=4',
      'actor_rollout_ref.actor.ppo_epochs=2',
      ...extra,
      `trainer.default_local_dir=${tiny.folder}/loss-${loss}`,
    );
    const result = await train({ config, reward: countsDigits });
    expect(result.globalStep).toBe(3);
    expect(Number.isFinite(result.metrics['actor/pg_loss'])).toBe(true);
  });

  it('runs with a reference, KL both ways, entropy bonus, rollout correction and group filtering', async () => {
    const config = tiny.config(
      'algorithm.use_kl_in_reward=true',
      'actor_rollout_ref.actor.use_kl_loss=true',
      'actor_rollout_ref.actor.entropy_coeff=0.01',
      'algorithm.rollout_correction.rollout_is=token',
      'algorithm.filter_groups.enable=true',
      'algorithm.filter_groups.metric=seq_reward',
      'algorithm.kl_ctrl.type=adaptive',
      `trainer.default_local_dir=${tiny.folder}/all`,
    );
    const { metrics } = await train({ config, reward: countsDigits });
    for (const name of [
      'actor/kl_loss',
      'actor/reward_kl_penalty',
      'actor/entropy_loss',
      'rollout_corr/kl',
      'training/filter_groups/evicted_samples',
      'timing_s/ref',
      'timing_s/old_log_prob',
    ])
      expect(metrics[name], name).toBeTypeOf('number');
  });

  it('stops when the reward fails for every sample', async () => {
    const config = tiny.config(`trainer.default_local_dir=${tiny.folder}/no-reward`);
    const broken = (): number => {
      throw new Error('the scoring service is gone');
    };
    await expect(train({ config, reward: broken })).rejects.toThrow(/any of 32 samples.*the scoring service is gone/);
  });

  it('leaves no tensors behind', async () => {
    const before = liveTensors().count;
    const config = tiny.config(
      'algorithm.adv_estimator=gae',
      'actor_rollout_ref.actor.use_kl_loss=true',
      `trainer.default_local_dir=${tiny.folder}/leak`,
    );
    await train({ config, reward: countsDigits });
    expect(liveTensors().count - before).toBeLessThanOrEqual(8);
  });
});

describe('resuming', () => {
  it('continues to the same weights, bit for bit', async () => {
    const whole = path.join(tiny.folder, 'whole');
    const parted = path.join(tiny.folder, 'parted');
    const settings = (run: string, steps: number) =>
      tiny.config(
        'trainer.save_freq=1',
        `trainer.total_training_steps=${steps}`,
        'algorithm.adv_estimator=gae',
        'algorithm.use_kl_in_reward=true',
        'algorithm.kl_ctrl.type=adaptive',
        `trainer.default_local_dir=${run}`,
      );
    await train({ config: settings(whole, 4), reward: countsDigits });
    // A run of four that was cut off after two: the schedule must see the same total.
    const stop = new AbortController();
    await train({
      config: settings(parted, 4),
      reward: countsDigits,
      signal: stop.signal,
      trackers: [
        {
          name: 'stop',
          log: (_, step) => {
            if (step === 2) stop.abort();
          },
        },
      ],
    });
    const stopped = existsSync(path.join(parted, 'global_step_4'));
    expect(stopped).toBe(false);
    const result = await train({ config: settings(parted, 4), reward: countsDigits });
    expect(result.globalStep).toBe(4);
    expect(weightsOf(parted, 4)).toBe(weightsOf(whole, 4));
  });

  it('ignores a checkpoint that was never finished', async () => {
    const run = path.join(tiny.folder, 'broken');
    const config = tiny.config(
      'trainer.save_freq=1',
      'trainer.total_training_steps=2',
      `trainer.default_local_dir=${run}`,
    );
    await train({ config, reward: countsDigits });
    cpSync(path.join(run, 'global_step_2'), path.join(run, 'global_step_3.tmp-1'), { recursive: true });
    rmSync(path.join(run, 'global_step_3.tmp-1', 'trainer_state.json'));
    const again = await train({
      config: tiny.config('trainer.save_freq=1', 'trainer.total_training_steps=3', `trainer.default_local_dir=${run}`),
      reward: countsDigits,
    });
    expect(again.globalStep).toBe(3);
  });
});
