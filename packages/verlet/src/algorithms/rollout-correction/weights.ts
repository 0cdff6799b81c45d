import type { RolloutCorrectionConfig } from '../types.js';
import { isThreshold } from './thresholds.js';
import { average, bounded, largest, sampleDeviation, shareOf, smallest, type Tokens } from './tokens.js';

export interface ImportanceWeights {
  /** 0 outside the mask. */
  weights: Float64Array;
  metrics: Record<string, number>;
}

/** pi_old / pi_rollout per token or per sequence, truncated above or, with two bounds, dropped outside of them (IcePop). */
export function importanceWeights(
  tokens: Tokens,
  level: 'token' | 'sequence',
  config: Pick<RolloutCorrectionConfig, 'rollout_is_threshold' | 'rollout_is_batch_normalize'>,
): ImportanceWeights {
  if (level !== 'token' && level !== 'sequence')
    throw new RangeError(`unknown rollout_is '${level as string}'; known: token, sequence`);
  const { lower, upper } = isThreshold(config.rollout_is_threshold);
  const rowLogRatios = tokens.rowSums(tokens.logRatio);
  const logWeights = level === 'token' ? tokens.logRatio : tokens.spread(rowLogRatios);
  const raw = logWeights.map((value, k) => (tokens.mask[k] === 0 ? 0 : Math.exp(bounded(value))));
  const weights = raw.map((value) =>
    lower === null ? Math.min(value, upper) : value >= lower && value <= upper ? value : 0,
  );
  const metrics = weightMetrics(tokens, { level, weights, raw, rowLogRatios, lower: lower ?? 1 / upper, upper });
  if (lower !== null)
    metrics.rollout_is_oob_ratio = tokens.mean(raw, (value) => (value < lower || value > upper ? 1 : 0));
  if (!config.rollout_is_batch_normalize) return { weights, metrics };

  const rowMeans = tokens.rowMeans(weights).filter((_, row) => tokens.lengths[row]! > 0);
  const mean = level === 'token' ? tokens.mean(weights) : average(rowMeans);
  const factor = mean > 1e-8 ? mean : 1;
  metrics.rollout_is_batch_norm_factor = factor;
  return { weights: weights.map((value) => value / factor), metrics };
}

interface WeightStatistics {
  level: 'token' | 'sequence';
  weights: Float64Array;
  raw: Float64Array;
  rowLogRatios: readonly number[];
  lower: number;
  upper: number;
}

/** Of the weights as applied, before normalising; how often bounds were passed is counted on the raw ones. */
function weightMetrics(tokens: Tokens, statistics: WeightStatistics): Record<string, number> {
  const { level, weights, raw, rowLogRatios, lower, upper } = statistics;
  const held = (value: number): number => Math.max(0, Math.min(upper, value));
  const heldMean = tokens.mean(weights, held) + 1e-8;
  const rowMeans = tokens.rowMeans(weights);
  const rawRowMeans = tokens.rowMeans(raw);
  const { min, max } = tokens.range(weights);
  return {
    rollout_is_mean: tokens.mean(weights),
    rollout_is_max: level === 'token' ? max : Math.exp(Math.min(20, largest(rowLogRatios))),
    rollout_is_min: level === 'token' ? min : Math.exp(smallest(rowLogRatios)),
    rollout_is_ratio_fraction_high:
      level === 'token'
        ? tokens.mean(raw, (value) => (value > upper ? 1 : 0))
        : shareOf(rowLogRatios, (value) => value > Math.log(upper)),
    rollout_is_ratio_fraction_low:
      level === 'token'
        ? tokens.mean(raw, (value) => (value < lower ? 1 : 0))
        : shareOf(rowLogRatios, (value) => value < Math.log(lower)),
    rollout_is_std: tokens.deviation(weights, 0, upper),
    rollout_is_eff_sample_size: 1 / tokens.mean(weights, (value) => (held(value) / heldMean) ** 2),
    rollout_is_seq_mean: average(rowMeans),
    rollout_is_seq_std: sampleDeviation(rowMeans),
    rollout_is_seq_max: largest(rowMeans),
    rollout_is_seq_min: smallest(rowMeans),
    rollout_is_seq_max_deviation: largest(rowMeans.map((value) => Math.abs(value - 1))),
    rollout_is_seq_fraction_high: shareOf(rawRowMeans, (value) => value > upper),
    rollout_is_seq_fraction_low: shareOf(rawRowMeans, (value) => value < lower),
  };
}
