/** The policy that sampled is the old policy: no recomputation of log-probabilities, two policies instead of three. */

import { rolloutCorrection } from '../rollout-correction/index.js';
import type { RolloutCorrectionConfig } from '../types.js';
import { registerPolicyLoss } from './registry.js';
import { reinforceLoss } from './score-function.js';
import { vanillaLoss } from './vanilla.js';

registerPolicyLoss('bypass_mode', (input) => {
  const config =
    input.rolloutCorrection ?? (input.config.policy_loss.rollout_correction as Partial<RolloutCorrectionConfig>);
  if (!config)
    throw new RangeError('bypass_mode needs the settings of algorithm.rollout_correction (rolloutCorrection)');
  const sampled = input.rolloutLogProb ?? input.oldLogProb;
  // A micro-batch may consist of rows without tokens only; it has a loss (0) but nothing to correct.
  const { weights, responseMask, metrics } =
    input.responseMask.sum().item() === 0
      ? { weights: null, responseMask: input.responseMask, metrics: {} }
      : rolloutCorrection({
          oldLogProbs: input.logProb.detach(),
          rolloutLogProbs: sampled,
          responseMask: input.responseMask,
          config,
        });
  const corrected = { ...input, oldLogProb: sampled, responseMask };
  const lossType = config.loss_type ?? 'ppo_clip';
  if (lossType !== 'ppo_clip' && lossType !== 'reinforce')
    throw new RangeError(`unknown rollout_correction.loss_type '${lossType as string}'; known: ppo_clip, reinforce`);
  // The clipped ratio is the importance weight already; a second one would count it twice.
  const result =
    lossType === 'reinforce'
      ? reinforceLoss({ ...corrected, rolloutIsWeights: weights })
      : vanillaLoss({ ...corrected, rolloutIsWeights: null });
  return { loss: result.loss, metrics: { ...result.metrics, ...metrics } };
});
