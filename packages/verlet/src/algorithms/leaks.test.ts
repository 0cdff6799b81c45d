/** Nothing is left behind: the count of live tensors is the same before and after. */
import { liveTensors, type Tensor, tensor } from '@verlet/torch';
import { expect, test } from 'vitest';
import * as algorithms from './index.js';

const double = (rows: number[][]): Tensor => tensor(rows, { dtype: 'float64' });

test('estimators, losses, KL and corrections keep only what they return', () => {
  const inputs = {
    rewards: double([[0, 1], [0, 0], [0, 3], [0, 1]]), // biome-ignore format: a matrix
    mask: double([[1, 1], [1, 1], [1, 1], [1, 0]]), // biome-ignore format: a matrix
    old: double([[-1, -2], [-1, -1], [-0.5, -3], [-1, -1]]), // biome-ignore format: a matrix
    now: double([[-1.2, -1], [-1, -0.4], [-0.6, -2], [-1, -1]]).setRequiresGrad(), // biome-ignore format: a matrix
    advantages: double([[1, 1], [-1, -1], [2, 2], [0, 0]]), // biome-ignore format: a matrix
    baselines: tensor([0.5, 0.5, 0.5, 0.5], { dtype: 'float64' }),
    logits: tensor([[[1, 2, 3], [0, 0, 1]]], { dtype: 'float64' }), // biome-ignore format: a matrix
  };
  const counts = { dpSize: 1, batchNumTokens: null, globalBatchSize: null };
  const controller = new algorithms.AdaptiveKlController(0.1, 1, 100);

  const everything = (): Tensor[] => {
    const made: Tensor[] = [];
    for (const name of algorithms.advantageEstimators()) {
      const { advantages, returns } = algorithms.computeAdvantage(name, {
        tokenLevelRewards: inputs.rewards,
        responseMask: inputs.mask,
        groupIds: ['a', 'a', 'b', 'b'],
        values: inputs.old,
        rewardBaselines: inputs.baselines,
        oldLogProbs: inputs.old,
        sumPiSquared: inputs.mask,
        gamma: 1,
        lam: 1,
        normAdvByStd: true,
      });
      made.push(advantages, returns);
    }
    for (const loss_mode of algorithms.policyLosses()) {
      const { loss } = algorithms.policyLoss({
        oldLogProb: inputs.old,
        logProb: inputs.now,
        advantages: inputs.advantages,
        responseMask: inputs.mask,
        lossAggMode: 'token-mean',
        counts,
        rolloutCorrection: {
          rollout_is: 'token',
          rollout_rs: 'token_k2',
          rollout_rs_threshold: 1,
          loss_type: 'reinforce',
        },
        config: {
          clip_ratio: 0.2,
          tau_pos: 1,
          tau_neg: 1.05,
          policy_loss: {
            loss_mode,
            clip_cov_ratio: 0.5,
            clip_cov_lb: -5,
            clip_cov_ub: 5,
            kl_cov_ratio: 0.5,
            ppo_kl_coef: 1,
            dro_beta: 1,
          },
        },
      });
      made.push(loss);
    }
    made.push(
      algorithms.valueLoss({
        vpreds: inputs.now,
        values: inputs.old,
        returns: inputs.rewards,
        responseMask: inputs.mask,
        cliprangeValue: 0.5,
        lossAggMode: 'seq-mean-token-mean',
        counts,
      }).loss,
      algorithms.klPenalty(inputs.now, inputs.old, 'k3+'),
      algorithms.maskedWhiten(inputs.old, inputs.mask),
      algorithms.entropyLoss(inputs.logits, tensor([[1, 1]], { dtype: 'float64' })),
      algorithms.applyKlPenalty({
        tokenLevelScores: inputs.rewards,
        oldLogProbs: inputs.now.detach(),
        refLogProb: inputs.old,
        responseMask: inputs.mask,
        controller,
        kind: 'kl',
      }).tokenLevelRewards,
    );
    return made;
  };

  const release = (made: Tensor[]): void => {
    for (const one of made) one.dispose();
  };
  release(everything());
  const before = liveTensors().count;
  const made = everything();
  const own = liveTensors().count - before;
  // Two arguments made in passing (a mask and a detached copy) live besides the results.
  expect(own).toBe(made.length + 2);
  release(made);
  expect(liveTensors().count).toBe(before + 2);
});
