/** An estimator and a loss of one's own, given as functions. */
import { beforeAll, expect, it } from 'vitest';
import { aggLoss } from '../../src/algorithms/index.js';
import { train } from '../../src/trainer/train.js';
import { countsDigits, type TinySetup, tinySetup } from './tiny.js';

let tiny: TinySetup;
beforeAll(async () => {
  tiny = await tinySetup();
});

it('trains with them and reports their metrics', async () => {
  let estimates = 0;
  const { metrics } = await train({
    config: tiny.config('trainer.total_training_steps=2', `trainer.default_local_dir=${tiny.folder}/own`),
    reward: countsDigits,
    advantage: ({ tokenLevelRewards, responseMask }) => {
      estimates++;
      const scores = tokenLevelRewards.sum(-1);
      const advantages = scores.sub(scores.mean()).unsqueeze(1).mul(responseMask);
      return { advantages, returns: advantages.clone() };
    },
    policyLoss: ({ logProb, advantages, responseMask, lossAggMode, counts }) => ({
      loss: aggLoss(logProb.mul(advantages).neg(), responseMask, lossAggMode, counts),
      metrics: { 'actor/own': 7 },
    }),
  });
  expect(estimates).toBe(2);
  expect(metrics['actor/own']).toBe(7);
  expect(metrics['actor/grad_norm']).toBeGreaterThan(0);
  expect(metrics['critic/advantages/min']).toBeLessThan(0);
  expect(metrics['critic/advantages/max']).toBeGreaterThan(0);
});
