/** The peers' own numbers. */
import { grad, type Tensor, tensor } from '@verlet/torch';
import { describe, expect, test } from 'vitest';
import {
  AdaptiveKlController,
  type AdvantageInput,
  aggLoss,
  balanceMetrics,
  ceilDivide,
  computeAdvantage,
  createKlController,
  entropyFromLogits,
  entropyLoss,
  FixedKlController,
  filterGroups,
  groupBalancedPartitions,
  groupIndex,
  inverseOrder,
  karmarkarKarp,
  klPenalty,
  type LossAggMode,
  logProbsFromLogits,
  maskedMean,
  maskedVar,
  maskedWhiten,
  policyLoss,
  reinforceLoss,
  rolloutCorrection,
  roundUp,
  valueLoss,
} from '../../src/algorithms/index.js';
import { doubles, expectClose, localCounts, lossConfig, type Vector, vector, vectorsOf } from './fixtures.js';

describe('torch_functional', () => {
  test.each(vectorsOf('torch_functional').map((v) => [v.name, v] as const))('%s', (name, { input, expected }) => {
    const run: Record<string, () => Tensor> = {
      masked_mean: () => maskedMean(doubles(input.values), doubles(input.mask), input.axis as number | undefined),
      masked_var: () => maskedVar(doubles(input.values), doubles(input.mask), input.unbiased as boolean),
      masked_whiten: () => maskedWhiten(doubles(input.values), doubles(input.mask), input.shift_mean as boolean),
      entropy_from_logits: () => entropyFromLogits(doubles(input.logits)),
      logprobs_from_logits: () =>
        logProbsFromLogits(doubles(input.logits), tensor(input.labels as number[], { dtype: 'int64' })),
    };
    const key = Object.keys(run).find((prefix) => name.startsWith(prefix))!;
    expectClose(run[key]!().toNested(), expected);
  });
});

describe('kl', () => {
  test.each(vectorsOf('kl').map((v) => [v.name, v] as const))('%s', (name, { input, expected }) => {
    if (name.includes('controller')) {
      const controller = name.startsWith('fixed')
        ? new FixedKlController(input.kl_coef as number)
        : new AdaptiveKlController(input.init_kl_coef as number, input.target_kl as number, input.horizon as number);
      controller.update(input.current_kl as number, input.n_steps as number);
      expectClose(controller.value, expected);
      return;
    }
    const logProb = doubles(input.logprob).setRequiresGrad();
    const ref = doubles(input.ref_logprob);
    for (const kind of [input.kind, input.alias ?? input.kind] as string[]) {
      const value = klPenalty(logProb, ref, kind);
      const gradients = (expected as { grad_of_sum_wrt_logprob?: unknown }).grad_of_sum_wrt_logprob;
      if (gradients) expectClose(grad([value.sum()], [logProb])[0]!.toNested(), gradients);
      else expectClose(value.toNested(), expected);
    }
  });

  test('a controller of unknown type is an error', () => {
    expect(() => createKlController({ type: 'none', kl_coef: 1, horizon: 1, target_kl: 1 })).toThrow(/fixed, adaptive/);
  });
});

function advantageInput({ input }: Vector): AdvantageInput {
  const optional = (key: string): Tensor | undefined => (input[key] === undefined ? undefined : doubles(input[key]));
  const rows = (input.token_level_rewards as unknown[]).length;
  return {
    tokenLevelRewards: doubles(input.token_level_rewards),
    responseMask: doubles(input.response_mask),
    groupIds: (input.index ?? input.uid ?? Array.from({ length: rows }, () => 'a')) as string[],
    trajectoryKeys: input.keys as string[] | undefined,
    values: optional('values'),
    rewardBaselines: optional('reward_baselines'),
    oldLogProbs: optional('old_log_probs'),
    sumPiSquared: optional('sum_pi_squared'),
    gamma: (input.gamma ?? 1) as number,
    lam: (input.lam ?? 1) as number,
    normAdvByStd: (input.norm_adv_by_std_in_grpo ?? true) as boolean,
  };
}

const estimatorsOf: Record<string, string[]> = {
  optimal_token_baseline: ['optimal_token_baseline'],
  tir_optimal_token_baseline: ['tir_optimal_token_baseline'],
  remax: ['remax'],
  gae_multi_turn_observation_skip: ['gae'],
  rfpp_obs_span_gamma1: ['reinforce_plus_plus'],
  rfpp_trailing_padding: ['reinforce_plus_plus'],
  rfpp_batch: ['reinforce_plus_plus'],
  reinforce_plus_plus: ['reinforce_plus_plus'],
  grpo_low_variance: ['grpo', 'grpo_vectorized'],
  dr_grpo_no_std: ['grpo', 'grpo_vectorized'],
  multi_trajectory_last_decides: ['grpo', 'grpo_vectorized'],
};

describe('advantage', () => {
  test.each(
    vectorsOf('advantage')
      .filter((v) => v.name !== 'as_torch_index')
      .map((v) => [v.name, v] as const),
  )('%s', (name, source) => {
    for (const estimator of estimatorsOf[name]!) {
      const { advantages, returns } = computeAdvantage(estimator, advantageInput(source));
      if (Array.isArray(source.expected)) {
        expectClose(advantages.toNested(), source.expected);
        expectClose(returns.toNested(), source.expected);
        continue;
      }
      const expected = source.expected as Record<string, unknown>;
      const mask = doubles(source.input.response_mask);
      // gae leaves what it carries outside the mask; the others multiply.
      const own = estimator === 'gae' ? advantages.mul(mask) : advantages;
      if (expected.advantages) expectClose(own.toNested(), expected.advantages);
      if (expected.returns) expectClose(returns.toNested(), expected.returns);
      if (expected.returns_masked) expectClose(returns.mul(mask).toNested(), expected.returns_masked);
    }
  });

  test('as_torch_index', () => {
    const { input, expected } = vector('advantage', 'as_torch_index');
    expect((input.cases as string[][]).map((labels) => groupIndex(labels))).toEqual(expected);
  });

  test('values at observation tokens do not matter to gae', () => {
    const source = vector('advantage', 'gae_multi_turn_observation_skip');
    const mask = doubles(source.input.response_mask);
    const one = computeAdvantage('gae', advantageInput(source)).advantages.mul(mask);
    const other = { ...source, input: { ...source.input, values: source.input.other_values_same_result } };
    expect(computeAdvantage('gae', advantageInput(other)).advantages.mul(mask).toNested()).toEqual(one.toNested());
  });
});

describe('loss_agg', () => {
  test.each(vectorsOf('loss_agg').map((v) => [v.name, v] as const))('%s', (_, { input, expected }) => {
    const loss = aggLoss(doubles(input.loss_mat), doubles(input.loss_mask), input.mode as LossAggMode, {
      dpSize: (input.dp_size ?? 1) as number,
      batchNumTokens: (input.batch_num_tokens ?? null) as number | null,
      globalBatchSize: (input.global_batch_size ?? null) as number | null,
      lossScaleFactor: (input.loss_scale_factor ?? null) as number | null,
    });
    expectClose(loss.item(), expected);
  });
});

const lossOf: Record<string, string> = {
  clip_cov_all_candidates: 'clip_cov',
  reinforce_with_is: 'bypass_mode',
  vanilla_clip_higher_seq_mean_token_sum: 'vanilla',
};

describe('policy_loss', () => {
  test.each(vectorsOf('policy_loss').map((v) => [v.name, v] as const))('%s', (name, { input, expected }) => {
    const wanted = expected as { loss: number; grad_wrt_log_prob: unknown; metrics: unknown };
    const { loss_agg_mode: lossAggMode, ...settings } = input;
    const number = (key: string): number | undefined => settings[key] as number | undefined;
    const config = lossConfig(
      lossOf[name] ?? name,
      {
        clip_ratio: number('clip_ratio') ?? 0.2,
        clip_ratio_low: number('clip_ratio_low'),
        clip_ratio_high: number('clip_ratio_high'),
        clip_ratio_c: number('clip_ratio_c'),
        tau_pos: number('tau_pos') ?? 1,
        tau_neg: number('tau_neg') ?? 1.05,
      },
      {
        clip_cov_ratio: number('clip_cov_ratio') ?? 0.0002,
        clip_cov_lb: number('clip_cov_lb') ?? 1,
        clip_cov_ub: number('clip_cov_ub') ?? 5,
      },
    );
    const logProb = doubles(input.log_prob).setRequiresGrad();
    const shared = {
      oldLogProb: doubles(input.old_log_prob ?? input.rollout_log_prob),
      logProb,
      advantages: doubles(input.advantages),
      responseMask: doubles(input.response_mask),
      lossAggMode: lossAggMode as LossAggMode,
      counts: localCounts,
      config,
    };
    // The vector brings weights of its own, which bypass_mode would compute: call the loss behind it.
    const { loss, metrics } =
      name === 'reinforce_with_is'
        ? reinforceLoss({ ...shared, rolloutIsWeights: doubles(input.rollout_is_weights) })
        : policyLoss(shared);
    expectClose(loss.item(), wanted.loss, 'loss');
    expectClose(grad([loss], [logProb])[0]!.toNested(), wanted.grad_wrt_log_prob, 'gradient');
    expectClose(metrics, wanted.metrics, 'metrics');
    expect(Object.keys(metrics).sort()).toEqual(Object.keys(wanted.metrics as object).sort());
  });
});

test('value_loss', () => {
  const { input, expected } = vector('value_loss', 'clipped_value_loss');
  const wanted = expected as { vf_loss: number; vf_clipfrac: number; grad_wrt_vpreds: unknown };
  const vpreds = doubles(input.vpreds).setRequiresGrad();
  const { loss, metrics } = valueLoss({
    vpreds,
    values: doubles(input.values),
    returns: doubles(input.returns),
    responseMask: doubles(input.response_mask),
    cliprangeValue: input.cliprange_value as number,
    lossAggMode: input.loss_agg_mode as LossAggMode,
    counts: localCounts,
  });
  expectClose(loss.item(), wanted.vf_loss);
  expectClose(metrics['critic/vf_clipfrac'], wanted.vf_clipfrac);
  expectClose(grad([loss], [vpreds])[0]!.toNested(), wanted.grad_wrt_vpreds);
});

test('entropy', () => {
  const { input, expected } = vector('entropy', 'entropy_loss_token_mean');
  expectClose(entropyLoss(doubles(input.logits), doubles(input.response_mask)).item(), expected);
});

describe('rollout_correction', () => {
  test.each(vectorsOf('rollout_correction').map((v) => [v.name, v] as const))('%s', (_, { input, expected }) => {
    const { old_log_prob: old, rollout_log_prob: rollout, response_mask: mask, ...config } = input;
    const wanted = expected as { weights?: unknown; response_mask: unknown; metrics?: object };
    const { weights, responseMask, metrics } = rolloutCorrection({
      oldLogProbs: doubles(old),
      rolloutLogProbs: doubles(rollout),
      responseMask: doubles(mask),
      config,
    });
    if (wanted.weights) expectClose(weights!.toNested(), wanted.weights, 'weights');
    else expect(weights).toBeNull();
    expectClose(responseMask.toNested(), wanted.response_mask, 'mask');
    if (!wanted.metrics) return;
    expectClose(metrics, wanted.metrics, 'metrics');
    expect(Object.keys(metrics).sort()).toEqual(Object.keys(wanted.metrics).sort());
  });
});

describe('seqlen_balancing', () => {
  test.each(vectorsOf('seqlen_balancing').map((v) => [v.name, v] as const))('%s', (name, { input, expected }) => {
    const lengths = input.seqlens as number[];
    const run: Record<string, () => unknown> = {
      karmarkar_karp_equal_size: () => karmarkarKarp(lengths, input.k as number, input.equal_size as boolean),
      karmarkar_karp_unequal: () => karmarkarKarp(lengths, input.k as number, input.equal_size as boolean),
      log_unbalance: () => balanceMetrics(lengths, input.partitions as number[][], input.prefix as string),
      group_balanced_partitions: () => groupBalancedPartitions(lengths, input.uids as string[], input.k as number),
      ceildiv_roundup: () => ({
        ceildiv: (input.ceildiv as [number, number][]).map(([a, b]) => ceilDivide(a, b)),
        roundup_divisible: (input.roundup_divisible as [number, number][]).map(([a, b]) => roundUp(a, b)),
      }),
      reverse_idx: () => inverseOrder(input.idx_map as number[]),
    };
    expect(run[name]!()).toEqual(expected);
  });
});

test('filter_groups: mean strictly between two bounds', () => {
  const { input, expected } = vector('filter_groups', 'easyr1_online_filtering');
  const { rows, groupIds } = filterGroups({
    groupIds: input.uid as string[],
    values: input.overall as number[],
    low: input.filter_low as number,
    high: input.filter_high as number,
  });
  expect({ kept_uids: groupIds, kept_rows: rows }).toEqual(expected);
});
