import { grad, type Tensor, tensor } from '@verlet/torch';
import { describe, expect, test } from 'vitest';
import { aggLoss } from '../aggregate.js';
import { seededRandom } from '../random.js';
import type { PolicyLossConfig, PolicyLossInput } from '../types.js';
import { valueLoss } from '../value-loss.js';
import { policyLoss, policyLosses, registerPolicyLoss } from './index.js';

const double = (values: number[][]): Tensor => tensor(values, { dtype: 'float64' });
const local = { dpSize: 1, batchNumTokens: null, globalBatchSize: null };

function config(loss_mode: string, changes: Partial<PolicyLossConfig> = {}): PolicyLossConfig {
  return {
    clip_ratio: 0.2,
    tau_pos: 1,
    tau_neg: 1.05,
    ...changes,
    policy_loss: {
      loss_mode,
      clip_cov_ratio: 0.1,
      clip_cov_lb: 0.1,
      clip_cov_ub: 5,
      kl_cov_ratio: 0.1,
      ppo_kl_coef: 0.1,
      dro_beta: null,
      ...changes.policy_loss,
    },
  };
}

function input(loss_mode: string, changes: Partial<PolicyLossInput> = {}): PolicyLossInput {
  return {
    oldLogProb: double([[-1, -1, -1]]),
    logProb: double([[-0.5, -1, -2]]).setRequiresGrad(),
    advantages: double([[1, 1, 1]]),
    responseMask: double([[1, 1, 1]]),
    lossAggMode: 'token-mean',
    counts: local,
    config: config(loss_mode),
    ...changes,
  };
}

describe('names', () => {
  test('every loss that the configuration offers exists', async () => {
    const { POLICY_LOSSES } = await import('../../config/schema/actor.js');
    expect(policyLosses().sort()).toEqual([...POLICY_LOSSES].sort());
  });

  test('a user adds a loss in a few lines', () => {
    registerPolicyLoss('plain', ({ logProb, advantages, responseMask, lossAggMode, counts }) => ({
      loss: aggLoss(logProb.mul(advantages).neg(), responseMask, lossAggMode, counts),
      metrics: {},
    }));
    expect(policyLoss(input('plain')).loss.item()).toBeCloseTo(3.5 / 3, 9);
    expect(() => registerPolicyLoss('vanilla', () => ({}) as never)).toThrow(/registered already/);
    expect(() => policyLoss(input('Vanilla'))).toThrow(/unknown policy loss 'Vanilla'; known: vanilla/);
  });
});

describe('settings that make no sense are errors', () => {
  test.each([
    ['vanilla', { clip_ratio_c: 1 }, /clip_ratio_c must be greater than 1/],
    ['dro', {}, /positive actor.policy_loss.dro_beta, got null/],
    ['bypass_mode', {}, /needs the settings of algorithm.rollout_correction/],
  ] as [string, Partial<PolicyLossConfig>, RegExp][])('%s', (name, changes, message) => {
    expect(() => policyLoss(input(name, { config: config(name, changes) }))).toThrow(message);
  });

  test('an unknown loss of bypass mode', () => {
    const rolloutCorrection = { loss_type: 'ppo' as 'ppo_clip' };
    expect(() => policyLoss(input('bypass_mode', { rolloutCorrection }))).toThrow(/known: ppo_clip, reinforce/);
  });
});

describe('vanilla', () => {
  test('ratios beyond exp(20) stay finite and carry no gradient', () => {
    const far = input('vanilla', { logProb: double([[-0.1, -0.1, -0.1]]).setRequiresGrad() });
    far.oldLogProb = double([[-500, -500, -500]]);
    far.advantages = double([[-1, -1, -1]]);
    const { loss, metrics } = policyLoss(far);
    // Dual clip bounds the loss at 3, and the distance is reported as bounded.
    expect(loss.item()).toBeCloseTo(3, 9);
    expect(metrics['actor/ppo_kl']).toBeCloseTo(-20, 6);
    expect(metrics['actor/pg_clipfrac_lower']).toBeCloseTo(1, 6);
    expect(grad([loss], [far.logProb])[0]!.toArray()).toEqual([0, 0, 0]);
  });
});

describe('clip_cov', () => {
  const width = 40;
  const logProb = Array.from({ length: width }, (_, t) => -0.2 - (t % 2) * 2);
  const advantage = logProb.map((_, t) => (t % 4 < 2 ? 1 - (t % 2) * 2 : 0));
  const covering = (seed: number): PolicyLossInput =>
    input('clip_cov', {
      oldLogProb: double([logProb]),
      logProb: double([logProb]).setRequiresGrad(),
      advantages: double([advantage]),
      responseMask: double([logProb.map(() => 1)]),
      random: seededRandom(seed),
    });
  const silenced = (seed: number): number[] => {
    const full = covering(seed);
    const gradient = grad([policyLoss(full).loss], [full.logProb])[0]!.toArray();
    return gradient.flatMap((value, t) => (value === 0 && advantage[t] !== 0 ? [t] : []));
  };

  test('as many as the share says, always tokens inside the bounds, any of them', () => {
    const seen = new Set<number>();
    for (let seed = 0; seed < 60; seed++) {
      const chosen = silenced(seed);
      expect(chosen.length).toBe(4);
      for (const t of chosen) seen.add(t);
    }
    expect(seen.size).toBe(20);
    expect(silenced(5)).toEqual(silenced(5));
  });

  test('without a generator the loss is a pure function', () => {
    const run = (): number => policyLoss({ ...covering(0), random: undefined }).loss.item();
    expect(run()).toBe(run());
  });
});

describe('bypass mode', () => {
  const rolloutLogProb = double([[-1, -1, -1]]);

  test('rejected tokens leave the loss; the sampling policy is the old one', () => {
    const { loss, metrics } = policyLoss(
      input('bypass_mode', {
        oldLogProb: double([[9, 9, 9]]),
        rolloutLogProb,
        rolloutCorrection: { rollout_rs: 'token_k2', rollout_rs_threshold: 0.2 },
      }),
    );
    // Ratios exp(0.5), 1, exp(-1): k2 is 0.125, 0, 0.5; the last token goes, the first is clipped at 1.2.
    expect(loss.item()).toBeCloseTo(-(1.2 + 1) / 2, 9);
    expect(metrics['rollout_corr/rollout_rs_masked_fraction']).toBeCloseTo(1 / 3, 6);
    expect(metrics['actor/pg_clipfrac']).toBeCloseTo(0.5, 6);
  });

  test('is what a configuration with bypass_mode runs, whatever loss it names', () => {
    const rolloutCorrection = { bypass_mode: true, loss_type: 'reinforce' as const, rollout_is: 'token' as const };
    const { loss, metrics } = policyLoss(input('vanilla', { rolloutLogProb, rolloutCorrection }));
    expect(loss.item()).toBeCloseTo((0.5 * Math.exp(0.5) + 1 + 2 * Math.exp(-1)) / 3, 9);
    expect(metrics['rollout_corr/rollout_is_mean']).toBeCloseTo((Math.exp(0.5) + 1 + Math.exp(-1)) / 3, 6);
  });

  test('clipping is the correction: importance weights are reported, not applied twice', () => {
    const run = (rollout_is: 'token' | null): number =>
      policyLoss(
        input('bypass_mode', { rolloutLogProb, rolloutCorrection: { rollout_is, loss_type: 'ppo_clip' } }),
      ).loss.item();
    expect(run('token')).toBe(run(null));
  });

  test('rows without tokens have loss 0', () => {
    const { loss } = policyLoss(
      input('bypass_mode', { responseMask: double([[0, 0, 0]]), rolloutCorrection: { rollout_is: 'token' } }),
    );
    expect(loss.item()).toBeCloseTo(0, 12);
  });
});

test('masks may be integers', () => {
  const responseMask = tensor([[1, 1, 0]], { dtype: 'int64' });
  const rolloutCorrection = { rollout_is: 'token', rollout_rs: 'token_k2', rollout_rs_threshold: 0.1 } as const;
  for (const name of ['vanilla', 'gspo', 'sapo', 'geo_mean', 'kl_cov', 'clip_cov', 'bypass_mode'])
    expect(policyLoss(input(name, { responseMask, rolloutCorrection })).loss.item(), name).toBeCloseTo(
      policyLoss(input(name, { responseMask: responseMask.to('float64'), rolloutCorrection })).loss.item(),
      6,
    );
});

describe('faults that peers had', () => {
  test('seq-mean-token-sum-norm is a mean over rows: twice the rows, the same loss', () => {
    const one = double([[1, 2, 3, 4]]);
    const two = double([
      [1, 2, 3, 4],
      [1, 2, 3, 4],
    ]);
    const run = (values: Tensor): number =>
      aggLoss(values, values.mul(0).add(1), 'seq-mean-token-sum-norm', local).item();
    expect(run(one)).toBeCloseTo(2.5, 9);
    expect(run(two)).toBeCloseTo(2.5, 9);
  });

  test('the critic does not learn from tokens that a tool wrote', () => {
    const vpreds = double([[1, 2, 3]]).setRequiresGrad();
    const { loss } = valueLoss({
      vpreds,
      values: double([[0, 0, 0]]),
      returns: double([[5, 5, 5]]),
      responseMask: double([[1, 0, 1]]),
      cliprangeValue: 10,
      lossAggMode: 'token-mean',
      counts: local,
    });
    const gradient = grad([loss], [vpreds])[0]!.toArray();
    expect(gradient[1]).toBeCloseTo(0, 12);
    expect(gradient[0]).toBeLessThan(-0.1);
  });
});
