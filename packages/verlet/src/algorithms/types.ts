/** The vocabulary of the algorithms. Tensors are [rows, responseLength] float32 unless said; masks hold 0 and 1. */
import type { Tensor } from '@verlet/torch';
import type { Random } from './random.js';

/** Counts over a whole mini-batch on all ranks. Null: counted within what is given, which is right on one rank only. */
export interface GlobalCounts {
  dpSize: number;
  batchNumTokens: number | null;
  /** Rows that have at least one token. */
  globalBatchSize: number | null;
  lossScaleFactor?: number | null;
}

export type LossAggMode =
  | 'token-mean'
  | 'token-sum'
  | 'seq-mean-token-sum'
  | 'seq-mean-token-sum-norm'
  | 'seq-mean-token-mean';

/** `algorithm.rollout_correction`: what is done about the difference between the sampling and the training policy. */
export interface RolloutCorrectionConfig {
  rollout_is: 'token' | 'sequence' | null;
  /** A number truncates; `"lo_hi"` drops weights outside (IcePop). */
  rollout_is_threshold: number | string;
  rollout_is_batch_normalize: boolean;
  rollout_rs: string | null;
  rollout_rs_threshold: number | string | null;
  bypass_mode: boolean;
  loss_type: 'ppo_clip' | 'reinforce';
}

/** The keys of `actor_rollout_ref.actor` that policy losses read. */
export interface PolicyLossConfig {
  clip_ratio: number;
  /** Null or missing: `clip_ratio`. */
  clip_ratio_low?: number | null;
  clip_ratio_high?: number | null;
  /** Null or missing: 3 (dual clip), 20 (dppo). */
  clip_ratio_c?: number | null;
  tau_pos: number;
  tau_neg: number;
  policy_loss: {
    loss_mode: string;
    clip_cov_ratio: number;
    clip_cov_lb: number;
    clip_cov_ub: number;
    kl_cov_ratio: number;
    ppo_kl_coef: number;
    dro_beta: number | null;
    /** What bypass_mode reads when the input does not bring its own. */
    rollout_correction?: Partial<RolloutCorrectionConfig> | Record<string, unknown> | null;
  };
}

export interface PolicyLossInput {
  oldLogProb: Tensor;
  /** Carries the graph. */
  logProb: Tensor;
  advantages: Tensor;
  responseMask: Tensor;
  lossAggMode: LossAggMode;
  counts: GlobalCounts;
  config: PolicyLossConfig;
  /** Weights per token from rollout correction; multiply the loss. */
  rolloutIsWeights?: Tensor | null;
  rolloutLogProb?: Tensor | null;
  /** `algorithm.rollout_correction`, for bypass_mode. */
  rolloutCorrection?: Partial<RolloutCorrectionConfig> | null;
  /** For clip_cov's random choice; a generator with a fixed seed when missing, so that the loss is a pure function. */
  random?: Random;
}

export interface LossResult {
  loss: Tensor;
  metrics: Record<string, number>;
}

/** The keys of `algorithm` that estimators read beyond the named inputs. */
export interface AdvantageConfig {
  gdpo_reward_keys?: readonly string[] | null;
  gdpo_reward_weights?: readonly number[] | null;
  [key: string]: unknown;
}

export interface AdvantageInput {
  tokenLevelRewards: Tensor;
  responseMask: Tensor;
  /** Rows of one prompt share an id. */
  groupIds: readonly string[];
  /**
   * `uid_session_trajectory` per row, for agents whose session leaves several trajectories. A session is one sample of its
   * group: the last trajectory is scored and the earlier ones get its advantage (estimators with one number per row), or all
   * of them share one weight in the baseline (estimators with a baseline per token).
   */
  trajectoryKeys?: readonly string[];
  values?: Tensor;
  /** Score of the greedy rollout per row, [rows] (remax). */
  rewardBaselines?: Tensor;
  gamma: number;
  lam: number;
  normAdvByStd: boolean;
  oldLogProbs?: Tensor;
  sumPiSquared?: Tensor;
  rolloutIsWeights?: Tensor;
  /** Further scores per row by name, [rows] (gdpo). */
  extraScores?: Record<string, Tensor | readonly number[]>;
  config?: AdvantageConfig;
}

export interface Advantages {
  advantages: Tensor;
  returns: Tensor;
}
