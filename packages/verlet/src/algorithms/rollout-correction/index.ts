/**
 * Corrections for the difference between the policy that sampled and the one that trains: importance weights, rejection,
 * and what the difference is. Weights and masks carry no gradient.
 */
import { scope, type Tensor, tensor } from '@verlet/torch';
import type { RolloutCorrectionConfig } from '../types.js';
import { divergenceMetrics } from './divergence.js';
import { rolloutCorrectionPreset } from './presets.js';
import { rejectionMask } from './rejection.js';
import { parseRejection } from './thresholds.js';
import { Tokens } from './tokens.js';
import { importanceWeights } from './weights.js';

export * from './presets.js';
export { type RejectionRuleName, rejectionRules } from './thresholds.js';

export interface RolloutCorrectionInput {
  oldLogProbs: Tensor;
  rolloutLogProbs: Tensor;
  responseMask: Tensor;
  config: Partial<RolloutCorrectionConfig>;
}

export interface RolloutCorrection {
  /** Per token, 0 outside the mask; null when `rollout_is` is off. */
  weights: Tensor | null;
  /** A new mask without what was rejected. */
  responseMask: Tensor;
  /** `rollout_corr/*` */
  metrics: Record<string, number>;
}

export function rolloutCorrection(input: RolloutCorrectionInput): RolloutCorrection {
  const config = { ...rolloutCorrectionPreset('disabled'), ...input.config };
  const tokens = new Tokens(input.oldLogProbs, input.rolloutLogProbs, input.responseMask);
  const importance = config.rollout_is ? importanceWeights(tokens, config.rollout_is, config) : null;
  const rejection = config.rollout_rs
    ? rejectionMask(tokens, parseRejection(config.rollout_rs, config.rollout_rs_threshold))
    : null;
  const metrics = { ...importance?.metrics, ...rejection?.metrics, ...divergenceMetrics(tokens) };
  const write = (values: Float64Array, like: Tensor): Tensor =>
    tensor(values, { shape: [tokens.rows, tokens.columns], dtype: like.dtype, device: like.device });
  return scope(() => ({
    weights: importance && write(importance.weights, input.oldLogProbs),
    responseMask: rejection ? write(rejection.mask, input.responseMask) : input.responseMask.clone(),
    metrics: Object.fromEntries(Object.entries(metrics).map(([name, value]) => [`rollout_corr/${name}`, value])),
  }));
}

/** Only `rollout_corr/*` metrics of the difference, without correcting anything. */
export function offPolicyMetrics(input: Omit<RolloutCorrectionInput, 'config'>): Record<string, number> {
  const tokens = new Tokens(input.oldLogProbs, input.rolloutLogProbs, input.responseMask);
  return Object.fromEntries(
    Object.entries(divergenceMetrics(tokens)).map(([name, value]) => [`rollout_corr/${name}`, value]),
  );
}
