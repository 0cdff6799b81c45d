import type { RejectionRule } from './thresholds.js';
import { average, bounded, largest, sampleDeviation, shareOf, smallest, type Tokens } from './tokens.js';

/** Tokens and rows that moved too far leave the mask. A token stays when every rule lets it. */
export function rejectionMask(
  tokens: Tokens,
  rules: readonly RejectionRule[],
): { mask: Float64Array; metrics: Record<string, number> } {
  const mask = Float64Array.from(tokens.mask);
  const metrics: Record<string, number> = {};
  for (const rule of rules) {
    const perToken = divergence(tokens, rule.estimator);
    const perRow = rowStatistic(tokens, rule, perToken);
    const statistic = perRow ? tokens.spread(perRow) : perToken;
    const rejected = statistic.map((value) =>
      value > rule.upper || (rule.lower !== null && value < rule.lower) || Number.isNaN(value) ? 1 : 0,
    );
    for (let k = 0; k < mask.length; k++) if (rejected[k]) mask[k] = 0;
    const prefix = `rollout_rs_${rule.name}`;
    for (const [name, value] of Object.entries(ruleMetrics(tokens, rule, statistic, perRow)))
      metrics[`${prefix}_${name}`] = value;
    metrics[`${prefix}_masked_fraction`] = tokens.mean(rejected);
    metrics[`${prefix}_seq_masked_fraction`] = average(
      tokens.rowMaxima(rejected).filter((_, row) => tokens.lengths[row]! > 0),
    );
  }
  const gone = mask.map((value, k) => (value === 0 && tokens.mask[k] !== 0 ? 1 : 0));
  metrics.rollout_rs_masked_fraction = tokens.mean(gone);
  metrics.rollout_rs_seq_masked_fraction = average(tokens.rowMaxima(gone));
  return { mask, metrics };
}

/** Estimates of KL(rollout || old) from r = log(pi_old / pi_rollout). */
function divergence(tokens: Tokens, estimator: RejectionRule['estimator']): Float64Array {
  return tokens.logRatio.map((value) => {
    const r = bounded(value);
    if (estimator === 'k1') return -r;
    return estimator === 'k2' ? 0.5 * r * r : Math.exp(r) - 1 - r;
  });
}

function rowStatistic(tokens: Tokens, { level }: RejectionRule, perToken: Float64Array): number[] | null {
  if (level === 'sum') return tokens.rowSums(perToken);
  if (level === 'mean') return tokens.rowMeans(perToken);
  return level === 'max' ? tokens.rowMaxima(perToken) : null;
}

function ruleMetrics(
  tokens: Tokens,
  { upper, lower }: RejectionRule,
  statistic: Float64Array,
  perRow: number[] | null,
): Record<string, number> {
  const rows = (perRow ?? tokens.rowMeans(statistic)).filter((_, row) => tokens.lengths[row]! > 0);
  const above = (value: number): boolean => value > upper;
  const below = (value: number): boolean => lower !== null && value < lower;
  const tokenShare = (holds: (value: number) => boolean): number =>
    tokens.mean(statistic, (value) => (holds(value) ? 1 : 0));
  const { min, max } = perRow ? { min: smallest(rows), max: largest(rows) } : tokens.range(statistic);
  return {
    mean: tokens.mean(statistic),
    max,
    min,
    fraction_high: perRow ? shareOf(rows, above) : tokenShare(above),
    fraction_low: perRow ? shareOf(rows, below) : tokenShare(below),
    std: tokens.deviation(statistic, lower ?? 0, upper),
    seq_mean: average(rows),
    seq_std: sampleDeviation(rows),
    seq_max: largest(rows),
    seq_min: smallest(rows),
    seq_max_deviation: largest(rows.map(Math.abs)),
    seq_fraction_high: shareOf(rows, above),
    ...(lower !== null && { seq_fraction_low: shareOf(rows, below) }),
  };
}
