/** The vocabulary of the algorithms. Tensors are [rows, responseLength] float32 unless said; masks hold 0 and 1. */
import type { Tensor } from '@verlet/torch';

/** Counts over a whole mini-batch on all ranks. Null: counted within what is given. */
export interface GlobalCounts {
  dpSize: number;
  batchNumTokens: number | null;
  globalBatchSize: number | null;
  lossScaleFactor?: number | null;
}

export type LossAggMode =
  | 'token-mean'
  | 'token-sum'
  | 'seq-mean-token-sum'
  | 'seq-mean-token-sum-norm'
  | 'seq-mean-token-mean';

/** The keys of `actor_rollout_ref.actor` that policy losses read. */
export interface PolicyLossConfig {
  clip_ratio: number;
  clip_ratio_low: number;
  clip_ratio_high: number;
  clip_ratio_c: number;
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
  rolloutIsWeights?: Tensor | null;
  rolloutLogProb?: Tensor | null;
}

export interface LossResult {
  loss: Tensor;
  metrics: Record<string, number>;
}

export interface AdvantageInput {
  tokenLevelRewards: Tensor;
  responseMask: Tensor;
  /** Rows of one prompt share an id. */
  groupIds: readonly string[];
  values?: Tensor;
  /** Score of the greedy rollout per row, [rows] (remax). */
  rewardBaselines?: Tensor;
  gamma: number;
  lam: number;
  normAdvByStd: boolean;
  oldLogProbs?: Tensor;
  sumPiSquared?: Tensor;
  rolloutIsWeights?: Tensor;
  /** Further scores per row by name (gdpo). */
  extraScores?: Record<string, Tensor>;
  config?: Record<string, unknown>;
}

export interface Advantages {
  advantages: Tensor;
  returns: Tensor;
}
