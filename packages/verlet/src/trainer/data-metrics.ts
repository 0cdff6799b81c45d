/** What a batch looked like, under verl's names. */
import { scope, type Tensor } from '@verlet/torch';

import type { DataProto } from '../protocol/index.js';
import { decidingRows } from './rollouts.js';
import { maximum, mean, minimum, standardDeviation } from './statistics.js';

/** Per row: sums over a [rows, columns] tensor, optionally masked. */
function rowSums(batch: DataProto, key: string, mask?: Float32Array): number[] {
  const tensor = batch.tensor(key);
  const [rows, columns] = tensor.shape as [number, number];
  const values = tensor.toFloat32Array();
  return Array.from({ length: rows }, (_, row) => {
    let sum = 0;
    for (let k = 0; k < columns; k++) sum += values[row * columns + k]! * (mask ? mask[row * columns + k]! : 1);
    return sum;
  });
}

function spread(name: string, values: readonly number[]): Record<string, number> {
  if (values.length === 0) return {};
  return { [`${name}/mean`]: mean(values), [`${name}/max`]: maximum(values), [`${name}/min`]: minimum(values) };
}

/** Values of a [rows, columns] tensor where the mask is 1. */
function masked(batch: DataProto, key: string, mask: Float32Array): number[] {
  const values = batch.tensor(key).toFloat32Array();
  const kept: number[] = [];
  for (let k = 0; k < values.length; k++) if (mask[k] === 1) kept.push(values[k]!);
  return kept;
}

export function dataMetrics(batch: DataProto, options: { useCritic: boolean }): Record<string, number> {
  const mask = batch.tensor('response_mask').toFloat32Array();
  const responseWidth = batch.tensor('responses').size(1);
  const promptWidth = batch.tensor('prompts').size(1);
  const attention = batch.tensor('attention_mask').toFloat32Array();
  const width = promptWidth + responseWidth;
  const lengths = Array.from({ length: batch.length }, (_, row) => {
    let prompt = 0;
    let response = 0;
    for (let k = 0; k < width; k++) {
      if (k < promptWidth) prompt += attention[row * width + k]!;
      else response += attention[row * width + k]!;
    }
    return { prompt, response };
  });
  const promptLengths = lengths.map((length) => length.prompt);
  const responseLengths = lengths.map((length) => length.response);
  // A row without a response was aborted: it says nothing about the policy.
  const answered = (_: unknown, row: number): boolean => responseLengths[row]! > 0;
  const finished = responseLengths.filter(answered);
  // One score per rollout, however many rows it left.
  const deciders = decidingRows(batch);
  const decides = (_: unknown, row: number): boolean => deciders[row] === row && responseLengths[row]! > 0;
  const advantages = masked(batch, 'advantages', mask);
  const returns = masked(batch, 'returns', mask);
  const metrics: Record<string, number> = {
    ...spread('critic/score', rowSums(batch, 'token_level_scores').filter(decides)),
    ...spread('critic/rewards', rowSums(batch, 'token_level_rewards').filter(decides)),
    ...spread('critic/advantages', advantages),
    ...spread('critic/returns', returns),
    ...spread('response_length', responseLengths),
    'response_length/clip_ratio': mean(responseLengths.map((length) => (length === responseWidth ? 1 : 0))),
    ...spread('response_length_non_aborted', finished),
    'response_length_non_aborted/clip_ratio': finished.length
      ? mean(finished.map((length) => (length === responseWidth ? 1 : 0)))
      : 0,
    'response/aborted_ratio': 1 - finished.length / batch.length,
    ...spread('prompt_length', promptLengths),
    'prompt_length/clip_ratio': mean(promptLengths.map((length) => (length === promptWidth ? 1 : 0))),
  };
  if (batch.nonTensorBatch.has('__num_turns__'))
    Object.assign(metrics, spread('num_turns', batch.column<number>('__num_turns__')));
  if (options.useCritic) {
    const values = masked(batch, 'values', mask);
    const errors = returns.map((value, k) => value - values[k]!);
    const variance = standardDeviation(returns) ** 2;
    Object.assign(metrics, spread('critic/values', values), {
      'critic/vf_explained_var': 1 - standardDeviation(errors) ** 2 / (variance + 1e-5),
    });
  }
  return metrics;
}

/** Mean of a [rows, columns] tensor over the sampled tokens. */
export function meanOverMask(batch: DataProto, key: string): number {
  const values = masked(batch, key, batch.tensor('response_mask').toFloat32Array());
  return values.length > 0 ? mean(values) : 0;
}

/** How far the sampler's probabilities are from the trainer's for the same tokens and weights. */
export function mismatchMetrics(batch: DataProto): Record<string, number> {
  if (!batch.batch.has('rollout_log_probs') || !batch.batch.has('old_log_probs')) return {};
  const mask = batch.tensor('response_mask').toFloat32Array();
  const sampled = masked(batch, 'rollout_log_probs', mask).map(Math.exp);
  const trained = masked(batch, 'old_log_probs', mask).map(Math.exp);
  if (sampled.length === 0) return { 'training/rollout_probs_diff_valid': 0 };
  const differences = sampled.map((value, k) => Math.abs(value - trained[k]!));
  const [a, b] = [mean(sampled), mean(trained)];
  const covariance = mean(sampled.map((value, k) => (value - a) * (trained[k]! - b)));
  const scale = Math.sqrt(
    mean(sampled.map((value) => (value - a) ** 2)) * mean(trained.map((value) => (value - b) ** 2)),
  );
  return {
    'training/rollout_probs_diff_valid': 1,
    'training/rollout_probs_diff_max': maximum(differences),
    'training/rollout_probs_diff_mean': mean(differences),
    'training/rollout_probs_diff_std': standardDeviation(differences),
    'training/rollout_actor_probs_pearson_corr': scale > 0 ? covariance / scale : 1,
  };
}

/**
 * How noisy the policy's gradient is, told from forward passes: the squared norm of a trajectory's gradient is about A² W with
 * W = sum over tokens of 1 - 2 pi + sum of squared pi. Needs that sum, so it is there with estimators that use it.
 */
export function varianceProxies(batch: DataProto, gradientNorm: number | undefined): Record<string, number> {
  if (!['sum_pi_squared', 'old_log_probs', 'advantages'].every((key) => batch.batch.has(key))) return {};
  const [rows, columns] = batch.tensor('responses').shape as [number, number];
  const numbers = (key: string): Float32Array => batch.tensor(key).toFloat32Array();
  const [mask, logProbs, squares, advantages] = [
    numbers('response_mask'),
    numbers('old_log_probs'),
    numbers('sum_pi_squared'),
    numbers('advantages'),
  ];
  const weights = batch.batch.has('rollout_is_weights') ? numbers('rollout_is_weights') : null;
  const energies: number[] = [];
  const means: number[] = [];
  for (let row = 0; row < rows; row++) {
    let [count, advantage, energy] = [0, 0, 0];
    for (let k = row * columns; k < (row + 1) * columns; k++) {
      if (mask[k] !== 1) continue;
      count++;
      advantage += advantages[k]!;
      energy += (1 - 2 * Math.exp(logProbs[k]!) + squares[k]!) * (weights ? weights[k]! ** 2 : 1);
    }
    if (count === 0) continue;
    means.push(advantage / count);
    energies.push(energy);
  }
  const average = (values: readonly number[]): number => (values.length > 0 ? mean(values) : 0);
  const signal = (gradientNorm ?? 0) ** 2;
  const power = average(means.map((advantage, k) => advantage ** 2 * energies[k]!));
  const hasSpread = means.length > 1 && gradientNorm !== undefined;
  return {
    'variance_proxy/proxy1_signal_strength': signal,
    'variance_proxy/proxy2_total_power': power,
    'variance_proxy/proxy3_pure_noise': hasSpread ? Math.max(0, (power - signal) / (means.length - 1)) : 0,
    'variance_proxy/expected_a_squared': average(means.map((advantage) => advantage ** 2)),
    'variance_proxy/expected_w': average(energies),
  };
}

export interface TimingSources {
  timing: Readonly<Record<string, number>>;
  /** What was learnt from. */
  batch: DataProto;
  /** Of all that was sampled in `timing.gen`, which with group filtering is more than the batch; by default the batch's. */
  responseTokens?: number;
  devices: number;
}

export function timingMetrics({ timing, batch, responseTokens, devices }: TimingSources): Record<string, number> {
  const mask = batch.tensor('attention_mask');
  const totalTokens = scope(() => mask.sum().item());
  const width = batch.tensor('responses').size(1);
  const ofResponses = (): Tensor => mask.narrow(1, mask.size(1) - width, width);
  const sampled = responseTokens ?? scope(() => ofResponses().sum().item());
  const metrics: Record<string, number> = {};
  for (const [name, seconds] of Object.entries(timing)) metrics[`timing_s/${name}`] = seconds;
  const perToken: Record<string, number> = {
    gen: sampled,
    ref: totalTokens,
    values: totalTokens,
    adv: totalTokens,
    update_critic: totalTokens,
    update_actor: totalTokens,
  };
  for (const [name, tokens] of Object.entries(perToken))
    if (timing[name] !== undefined && tokens > 0)
      metrics[`timing_per_token_ms/${name}`] = (1000 * timing[name]) / tokens;
  metrics['perf/total_num_tokens'] = totalTokens;
  metrics['perf/time_per_step'] = timing.step ?? 0;
  if (timing.step) metrics['perf/throughput'] = totalTokens / (timing.step * devices);
  metrics['perf/cpu_memory_used_gb'] = process.memoryUsage().rss / 2 ** 30;
  return metrics;
}
