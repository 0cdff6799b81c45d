/** Stations I to L: what the current weights say about the samples, and what each token was worth. */

import { scope } from '@verlet/torch';
import {
  type AdvantageEstimator,
  type AdvantageInput,
  applyKlPenalty,
  computeAdvantage,
  type KlController,
  pfPpoResample,
  rolloutCorrection,
  seededRandom,
} from '../algorithms/index.js';
import type { PpoConfig } from '../config/index.js';
import type { DataProto } from '../protocol/index.js';
import type { ActorGroup, CriticGroup } from './ppo.js';
import { rolloutRows, selectRollouts, trajectoryKeys } from './rollouts.js';
import { type StepTimer, takeMetrics } from './step-timer.js';

const tokenBaselines = ['optimal_token_baseline', 'tir_optimal_token_baseline'];

/**
 * The policy is updated once, on all of its own fresh samples: the old log-probabilities are those of the update's own
 * forward pass, and computing them before would only repeat it.
 */
export function isSingleUpdate(config: PpoConfig): boolean {
  const { actor } = config.actor_rollout_ref;
  return actor.ppo_epochs === 1 && actor.ppo_mini_batch_size >= config.data.train_batch_size;
}

export function needsOldLogProbs(config: PpoConfig): boolean {
  const { algorithm } = config;
  const correction = algorithm.rollout_correction;
  if (correction.bypass_mode) return false;
  return (
    !isSingleUpdate(config) ||
    algorithm.use_kl_in_reward ||
    correction.rollout_is !== null ||
    correction.rollout_rs !== null ||
    tokenBaselines.includes(algorithm.adv_estimator)
  );
}

export const needsSumPiSquared = (config: PpoConfig): boolean =>
  tokenBaselines.includes(config.algorithm.adv_estimator);

export interface EstimateParts {
  config: PpoConfig;
  actor: ActorGroup;
  critic: CriticGroup | null;
  useReference: boolean;
  klController: KlController;
  /** Instead of the estimator that the configuration names. */
  advantage?: AdvantageEstimator;
}

/** Log-probabilities and values under the weights as they are. */
export async function addLogProbsAndValues(
  parts: EstimateParts,
  batch: DataProto,
  timer: StepTimer,
): Promise<Record<string, number>> {
  const metrics: Record<string, number> = {};
  const add = async (name: string, work: () => Promise<DataProto>): Promise<void> => {
    const output = await timer.time(name, work);
    Object.assign(metrics, takeMetrics(output));
    batch.union(output);
  };
  const { config, actor, critic, useReference } = parts;
  batch.metaInfo.sumPiSquared = needsSumPiSquared(config);
  if (config.algorithm.rollout_correction.bypass_mode) {
    if (!batch.batch.has('old_log_probs')) batch.set('old_log_probs', batch.tensor('rollout_log_probs').clone());
  } else if (needsOldLogProbs(config) && !batch.batch.has('old_log_probs'))
    await add('old_log_prob', () => actor.computeLogProb(batch));
  if (useReference && !batch.batch.has('ref_log_prob')) await add('ref', () => actor.computeRefLogProb(batch));
  if (critic) await add('values', () => critic.computeValues(batch));
  return metrics;
}

/** KL in the reward, rollout correction, advantages; in this process, on small tensors. */
export function addAdvantages(parts: EstimateParts, batch: DataProto): Record<string, number> {
  const { algorithm } = parts.config;
  const metrics: Record<string, number> = {};
  const correction = algorithm.rollout_correction;
  if (
    batch.batch.has('old_log_probs') &&
    !correction.bypass_mode &&
    (correction.rollout_is !== null || correction.rollout_rs !== null)
  ) {
    const corrected = rolloutCorrection({
      oldLogProbs: batch.tensor('old_log_probs'),
      rolloutLogProbs: batch.tensor('rollout_log_probs'),
      responseMask: batch.tensor('response_mask'),
      config: correction,
    });
    if (corrected.weights) batch.set('rollout_is_weights', corrected.weights);
    batch.set('response_mask', corrected.responseMask);
    Object.assign(metrics, corrected.metrics);
  }
  const responseMask = batch.tensor('response_mask').to('float32');
  if (algorithm.use_kl_in_reward) {
    const penalty = applyKlPenalty({
      tokenLevelScores: batch.tensor('token_level_scores'),
      oldLogProbs: batch.tensor('old_log_probs'),
      refLogProb: batch.tensor('ref_log_prob'),
      responseMask,
      controller: parts.klController,
      kind: algorithm.kl_penalty,
    });
    batch.set('token_level_rewards', penalty.tokenLevelRewards);
    Object.assign(metrics, penalty.metrics);
  } else batch.set('token_level_rewards', batch.tensor('token_level_scores').clone());
  const input: AdvantageInput = {
    tokenLevelRewards: batch.tensor('token_level_rewards'),
    responseMask,
    groupIds: batch.column<string>('uid'),
    trajectoryKeys: trajectoryKeys(batch),
    values: batch.batch.get('values'),
    rewardBaselines: batch.batch.get('reward_baselines'),
    gamma: algorithm.gamma,
    lam: algorithm.lam,
    normAdvByStd: algorithm.norm_adv_by_std_in_grpo,
    oldLogProbs: batch.batch.get('old_log_probs'),
    sumPiSquared: batch.batch.get('sum_pi_squared'),
    rolloutIsWeights: batch.batch.get('rollout_is_weights'),
    extraScores: extraScores(batch, algorithm.gdpo_reward_keys),
    config: algorithm,
  };
  const own = parts.advantage;
  const { advantages, returns } = own ? scope(() => own(input)) : computeAdvantage(algorithm.adv_estimator, input);
  responseMask.dispose();
  batch.set('advantages', advantages);
  batch.set('returns', returns);
  return metrics;
}

function extraScores(batch: DataProto, keys: readonly string[] | null): Record<string, number[]> | undefined {
  if (!keys) return undefined;
  const extras = batch.column<Record<string, unknown>>('reward_extra_info');
  return Object.fromEntries(keys.map((key) => [key, extras.map((extra) => Number(extra[key]))]));
}

/** PF-PPO: rollouts drawn again by their score; a new batch when it is on. */
export function resampleByScore(config: PpoConfig, batch: DataProto, step: number): DataProto {
  if (!config.algorithm.use_pf_ppo) return batch;
  const totals = batch.tensor('token_level_scores').sum(-1);
  const rowScores = totals.toFloat32Array();
  totals.dispose();
  const scores = rolloutRows(batch).map((rows) => rowScores[rows.at(-1)!]!);
  const drawn = selectRollouts(batch, pfPpoResample(scores, config.algorithm.pf_ppo, seededRandom(step)));
  batch.dispose();
  return drawn;
}
