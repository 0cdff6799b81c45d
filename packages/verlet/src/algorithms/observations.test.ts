/** What tools and users wrote stands in the response and is nobody's doing: no gradient, no KL, no value loss, no weight. */
import { grad, type Tensor, tensor } from '@verlet/torch';
import { describe, expect, test } from 'vitest';
import { advantageEstimators, computeAdvantage } from './advantages/index.js';
import { aggLoss } from './aggregate.js';
import { applyKlPenalty, FixedKlController, klPenalty } from './kl.js';
import { policyLoss, policyLosses } from './policy-losses/index.js';
import { rolloutCorrection } from './rollout-correction/index.js';
import type { GlobalCounts, LossAggMode, PolicyLossConfig } from './types.js';
import { valueLoss } from './value-loss.js';

// Turns of the model with observations between and padding behind.
const mask = [
  [1, 1, 0, 0, 1, 1],
  [1, 0, 1, 0, 0, 0],
  [1, 1, 1, 0, 1, 0],
  [1, 0, 0, 0, 0, 1],
];
const groupIds = ['a', 'a', 'b', 'b'];
const outside = mask.flatMap((row) => row.map((bit) => bit === 0));

/** Numbers that differ from place to place; where the model did not write, whatever is given. */
function filled(seed: number, elsewhere: number): Tensor {
  const values = mask.map((row, r) =>
    row.map((bit, t) => (bit === 1 ? Math.sin(seed + 3 * r + 1.7 * t) * 0.5 - 0.7 : elsewhere)),
  );
  return tensor(values, { dtype: 'float64' });
}

const responseMask = tensor(mask, { dtype: 'float64' });
const counts: GlobalCounts = { dpSize: 1, batchNumTokens: null, globalBatchSize: null };
const rewards = tensor(
  mask.map((row, r) => row.map((_, t) => (t === row.lastIndexOf(1) ? r - 1 : 0))),
  { dtype: 'float64' },
);
const garbage = [0, 3, -3];

/** Loss and gradient are the same whatever stands in the observations, and nothing flows into them. */
function expectUntouched(run: (leaf: Tensor, elsewhere: number) => Tensor): void {
  const results = garbage.map((elsewhere) => {
    const leaf = filled(1, elsewhere).setRequiresGrad();
    const loss = run(leaf, elsewhere);
    const [gradient] = grad([loss], [leaf]);
    return { loss: loss.item(), gradient: [...gradient!.toFloat64Array()] };
  });
  for (const { loss, gradient } of results) {
    expect(loss).toBeCloseTo(results[0]!.loss, 10);
    for (const [k, value] of gradient.entries()) {
      expect(value).toBeCloseTo(results[0]!.gradient[k]!, 10);
      if (outside[k]) expect(value).toBeCloseTo(0, 12);
    }
  }
  expect(results[0]!.gradient.some((value) => value !== 0)).toBe(true);
}

function lossConfig(loss_mode: string): PolicyLossConfig {
  const policy_loss = {
    loss_mode,
    clip_cov_ratio: 0.3,
    clip_cov_lb: -5,
    clip_cov_ub: 5,
    kl_cov_ratio: 0.3,
    ppo_kl_coef: 0.1,
    dro_beta: 0.4,
  };
  return { clip_ratio: 0.2, tau_pos: 1, tau_neg: 1.05, policy_loss };
}

describe('losses', () => {
  test.each(policyLosses())('policy loss %s', (name) => {
    for (const lossAggMode of ['token-mean', 'seq-mean-token-mean'] as const)
      expectUntouched(
        (logProb, elsewhere) =>
          policyLoss({
            oldLogProb: filled(1.2, elsewhere / 2),
            logProb,
            advantages: filled(3, -elsewhere),
            responseMask,
            lossAggMode,
            counts,
            config: lossConfig(name),
            rolloutLogProb: filled(1.3, elsewhere),
            ...(name === 'bypass_mode' ? { rolloutCorrection: { rollout_is: 'token', loss_type: 'ppo_clip' } } : {}),
          }).loss,
      );
  });

  test.each(['token-mean', 'seq-mean-token-sum', 'seq-mean-token-sum-norm', 'seq-mean-token-mean'] as LossAggMode[])(
    'KL and value losses, %s',
    (lossAggMode) => {
      for (const kind of ['k1', 'abs', 'k2', 'k3', 'k3+'])
        expectUntouched((logProb, elsewhere) =>
          aggLoss(klPenalty(logProb, filled(2, elsewhere / 2), kind), responseMask, lossAggMode, counts),
        );
      expectUntouched(
        (vpreds, elsewhere) =>
          valueLoss({
            vpreds,
            values: filled(2, elsewhere / 2),
            returns: filled(4, -elsewhere),
            responseMask,
            cliprangeValue: 0.1,
            lossAggMode,
            counts,
          }).loss,
      );
    },
  );
});

describe('before the losses', () => {
  const insideOf = (values: Tensor): number[] => [...values.toFloat64Array()].filter((_, k) => !outside[k]);

  function expectSame(run: (elsewhere: number) => number[]): void {
    const [first, ...others] = garbage.map(run);
    for (const other of others) for (const [k, value] of other.entries()) expect(value).toBeCloseTo(first![k]!, 9);
  }

  test('KL in the reward is charged for sampled tokens only', () => {
    for (const kind of ['kl', 'abs', 'low_var_kl'])
      expectSame((elsewhere) => {
        const { tokenLevelRewards, metrics } = applyKlPenalty({
          tokenLevelScores: rewards,
          oldLogProbs: filled(1, elsewhere),
          refLogProb: filled(2, -elsewhere),
          responseMask,
          controller: new FixedKlController(0.5),
          kind,
        });
        const values = [...tokenLevelRewards.toFloat64Array()];
        for (const [k, value] of values.entries()) if (outside[k]) expect(value).toBe(0);
        return [...values, metrics['actor/reward_kl_penalty']!];
      });
  });

  test.each(advantageEstimators())('advantages and their whitening: %s', (name) => {
    expectSame((elsewhere) => {
      const { advantages } = computeAdvantage(name, {
        tokenLevelRewards: rewards,
        responseMask,
        groupIds,
        values: filled(2, elsewhere),
        rewardBaselines: tensor([0.5, 0.5, 0.2, 0.2]),
        oldLogProbs: filled(1, -Math.abs(elsewhere)),
        sumPiSquared: filled(5, elsewhere).mul(0.1),
        rolloutIsWeights: filled(6, elsewhere).add(2),
        extraScores: { quality: [0, 1, 2, 3] },
        config: { gdpo_reward_keys: ['quality'] },
        gamma: 0.9,
        lam: 0.8,
        normAdvByStd: true,
      });
      return insideOf(advantages);
    });
  });

  test('rollout correction', () => {
    for (const level of ['token', 'sequence'] as const)
      expectSame((elsewhere) => {
        const { weights, metrics } = rolloutCorrection({
          oldLogProbs: filled(1, elsewhere),
          rolloutLogProbs: filled(1.2, -elsewhere),
          responseMask,
          config: {
            rollout_is: level,
            rollout_is_threshold: 2,
            rollout_is_batch_normalize: true,
            rollout_rs: null,
            rollout_rs_threshold: null,
            bypass_mode: false,
            loss_type: 'ppo_clip',
          },
        });
        return [...insideOf(weights!), ...Object.values(metrics)];
      });
  });
});
