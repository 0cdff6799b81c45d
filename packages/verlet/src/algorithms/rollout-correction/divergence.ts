import { average, bounded, largest, smallest, type Tokens } from './tokens.js';

/** How far the policy that sampled is from the one that trains: KL, perplexities, chi-squared. */
export function divergenceMetrics(tokens: Tokens): Record<string, number> {
  const oldMeans = tokens.rowMeans(tokens.old);
  const rolloutMeans = tokens.rowMeans(tokens.rollout);
  const differences = rolloutMeans.map((value, row) => value - oldMeans[row]!);
  const rowLogRatios = tokens.rowSums(tokens.logRatio);
  return {
    training_ppl: average(oldMeans.map((value) => Math.exp(-value))),
    training_log_ppl: average(oldMeans.map((value) => -value)),
    kl: tokens.mean(tokens.logRatio, (value) => -value),
    k3_kl: tokens.mean(tokens.logRatio, (value) => Math.exp(value) - value - 1),
    rollout_ppl: average(rolloutMeans.map((value) => Math.exp(-value))),
    rollout_log_ppl: average(rolloutMeans.map((value) => -value)),
    log_ppl_diff: average(differences),
    log_ppl_abs_diff: average(differences.map(Math.abs)),
    log_ppl_diff_max: largest(differences),
    log_ppl_diff_min: smallest(differences),
    ppl_ratio: average(differences.map(Math.exp)),
    chi2_token: tokens.mean(tokens.logRatio, (value) => Math.exp(bounded(value)) ** 2) - 1,
    chi2_seq: average(rowLogRatios.map((value) => Math.exp(2 * bounded(value)))) - 1,
  };
}
