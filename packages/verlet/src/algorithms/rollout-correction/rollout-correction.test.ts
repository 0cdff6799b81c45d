import { type Tensor, tensor } from '@verlet/torch';
import { describe, expect, test } from 'vitest';
import type { RolloutCorrectionConfig } from '../types.js';
import {
  offPolicyMetrics,
  rejectionRules,
  rolloutCorrection,
  rolloutCorrectionPreset,
  rolloutCorrectionPresets,
} from './index.js';

const double = (values: number[][]): Tensor => tensor(values, { dtype: 'float64' });

const old = [
  [-1, -2, -0.5],
  [-1, -1, -1],
];
const rollout = [
  [-1.5, -1.8, -0.5],
  [-3, -1, -0.2],
];
const mask = [
  [1, 1, 1],
  [1, 1, 0],
];

const correct = (config: Partial<RolloutCorrectionConfig>) =>
  rolloutCorrection({
    oldLogProbs: double(old),
    rolloutLogProbs: double(rollout),
    responseMask: double(mask),
    config,
  });

describe('importance weights', () => {
  test('IcePop on ratios 0.4, 0.8 and 6: only the middle one stays', () => {
    const { weights, responseMask, metrics } = rolloutCorrection({
      oldLogProbs: double([[0.4, 0.8, 6].map(Math.log)]),
      rolloutLogProbs: double([[0, 0, 0]]),
      responseMask: double([[1, 1, 1]]),
      config: { rollout_is: 'token', rollout_is_threshold: '0.5_5.0' },
    });
    for (const [k, value] of [0, 0.8, 0].entries()) expect(weights!.toArray()[k]).toBeCloseTo(value, 9);
    expect(responseMask.toArray()).toEqual([1, 1, 1]);
    expect(metrics['rollout_corr/rollout_is_std']).toBeCloseTo(0.3771236, 6);
    expect(metrics['rollout_corr/rollout_is_eff_sample_size']).toBeCloseTo(1 / 3, 6);
  });

  test('normalised weights have mean 1: over tokens, or over sequences', () => {
    const token = correct({ rollout_is: 'token', rollout_is_batch_normalize: true });
    const raw = [Math.exp(0.5), Math.exp(-0.2), 1, 2, 1];
    const mean = raw.reduce((a, b) => a + b) / 5;
    expect(token.metrics['rollout_corr/rollout_is_batch_norm_factor']).toBeCloseTo(mean, 7);
    expect(token.weights!.toArray()[3]).toBeCloseTo(2 / mean, 7);
    const sequence = correct({ rollout_is: 'sequence', rollout_is_batch_normalize: true });
    const factor = (Math.exp(0.3) + 2) / 2;
    expect(sequence.metrics['rollout_corr/rollout_is_batch_norm_factor']).toBeCloseTo(factor, 7);
    expect(sequence.weights!.toArray()[0]).toBeCloseTo(Math.exp(0.3) / factor, 7);
    expect(sequence.weights!.toArray()[5]).toBe(0);
  });

  test('far policies give large but finite weights', () => {
    const { weights, metrics } = rolloutCorrection({
      oldLogProbs: double([[-1, -900]]),
      rolloutLogProbs: double([[-900, -1]]),
      responseMask: double([[1, 1]]),
      config: { rollout_is: 'token', rollout_is_threshold: 1e12 },
    });
    expect(weights!.toArray()[0]).toBeCloseTo(Math.exp(20), 0);
    expect(weights!.toArray()[1]).toBeCloseTo(Math.exp(-20), 12);
    expect(Number.isFinite(metrics['rollout_corr/chi2_seq'])).toBe(true);
  });
});

describe('rejection', () => {
  // k1 = -r; row 0 has r = 0.5, -0.2, 0; row 1 has 2, 0 (and -0.8 outside the mask).
  const kept: Record<(typeof rejectionRules)[number], [number | string, number[]]> = {
    // Bounds are ratios of rollout to old: exp(-0.5) = 0.61 is outside, exp(0.2) = 1.22 inside.
    token_k1: ['0.7_1.5', [0, 1, 1, 0, 1, 0]],
    token_k2: [0.1, [0, 1, 1, 0, 1, 0]],
    token_k3: [0.1, [0, 1, 1, 0, 1, 0]],
    seq_sum_k1: ['0.5_2.0', [1, 1, 1, 0, 0, 0]],
    seq_sum_k2: [0.2, [1, 1, 1, 0, 0, 0]],
    seq_sum_k3: [0.2, [1, 1, 1, 0, 0, 0]],
    seq_mean_k1: [1.2, [1, 1, 1, 0, 0, 0]],
    seq_mean_k2: [0.9, [1, 1, 1, 0, 0, 0]],
    seq_mean_k3: [0.03, [0, 0, 0, 0, 0, 0]],
    seq_max_k2: [0.13, [1, 1, 1, 0, 0, 0]],
    seq_max_k3: [10, [1, 1, 1, 1, 1, 0]],
  };

  test.each(rejectionRules)('%s', (rule) => {
    const [threshold, expected] = kept[rule];
    const reject = correct({ rollout_rs: rule, rollout_rs_threshold: threshold });
    expect(reject.responseMask.toArray()).toEqual(expected);
    const gone = 5 - reject.responseMask.sum().item();
    expect(reject.metrics[`rollout_corr/rollout_rs_${rule}_masked_fraction`]).toBeCloseTo(gone / 5, 7);
    expect(reject.metrics['rollout_corr/rollout_rs_masked_fraction']).toBeCloseTo(gone / 5, 7);
    for (const name of ['mean', 'max', 'min', 'std', 'fraction_high', 'seq_mean', 'seq_std', 'seq_masked_fraction'])
      expect(reject.metrics[`rollout_corr/rollout_rs_${rule}_${name}`], name).toEqual(expect.any(Number));
  });

  test('several rules: a token must pass all; one bound may serve all', () => {
    const both = correct({ rollout_rs: 'token_k2, seq_max_k3', rollout_rs_threshold: '0.1, 0.2' });
    expect(both.responseMask.toArray()).toEqual([0, 1, 1, 0, 0, 0]);
    const shared = correct({ rollout_rs: 'token_k2,token_k3', rollout_rs_threshold: 0.1 });
    expect(shared.responseMask.toArray()).toEqual([0, 1, 1, 0, 1, 0]);
    expect(shared.weights).toBeNull();
  });

  test('the mask that was given is left alone', () => {
    const responseMask = double(mask);
    rolloutCorrection({
      oldLogProbs: double(old),
      rolloutLogProbs: double(rollout),
      responseMask,
      config: { rollout_rs: 'token_k2', rollout_rs_threshold: 0.1 },
    });
    expect(responseMask.toNested()).toEqual(mask);
  });
});

describe('mistakes are named', () => {
  test.each([
    [{ rollout_rs: 'token_k9', rollout_rs_threshold: 1 }, /unknown rule 'token_k9'; known: token_k1/],
    [{ rollout_rs: 'token_k1' }, /needs rollout_rs_threshold/],
    [{ rollout_rs: ' , ', rollout_rs_threshold: 1 }, /names no rule/],
    [{ rollout_rs: 'token_k1,token_k2,token_k3', rollout_rs_threshold: '1,2' }, /2 bounds for 3 rules/],
    [{ rollout_rs: 'token_k2', rollout_rs_threshold: '1_2' }, /has an upper bound only/],
    [{ rollout_rs: 'token_k1', rollout_rs_threshold: '2_1' }, /lower bound of '2_1' is above/],
    [{ rollout_rs: 'token_k2', rollout_rs_threshold: -1 }, /not a positive number/],
    [{ rollout_is: 'token', rollout_is_threshold: 'x' }, /rollout_is_threshold: 'x' is not/],
    [{ rollout_is: 'row' as 'token' }, /unknown rollout_is 'row'/],
  ] as [Partial<RolloutCorrectionConfig>, RegExp][])('%j', (config, message) => {
    expect(() => correct(config)).toThrow(message);
  });

  test('shapes that differ and masks without tokens', () => {
    const parts = { oldLogProbs: double(old), rolloutLogProbs: double([[1]]), responseMask: double(mask), config: {} };
    expect(() => rolloutCorrection(parts)).toThrow(/rolloutLogProbs is \[1, 1\]/);
    const empty = { ...parts, rolloutLogProbs: double(rollout), responseMask: double(mask).mul(0) };
    expect(() => rolloutCorrection(empty)).toThrow(/no token/);
  });
});

describe('presets', () => {
  test('all of them run, and leave the policy that sampled itself alone', () => {
    expect(rolloutCorrectionPresets.length).toBe(19);
    for (const name of rolloutCorrectionPresets) {
      const { weights, responseMask } = rolloutCorrection({
        oldLogProbs: double(old),
        rolloutLogProbs: double(old),
        responseMask: double(mask),
        config: rolloutCorrectionPreset(name),
      });
      expect(responseMask.toNested(), name).toEqual(mask);
      if (weights) expect(weights.toNested(), name).toEqual(mask);
    }
  });

  test('by name, with changes', () => {
    expect(rolloutCorrectionPreset('decoupled_seq_is_rs', { rollout_is_threshold: 3 })).toEqual({
      rollout_is: 'sequence',
      rollout_is_threshold: 3,
      rollout_is_batch_normalize: false,
      rollout_rs: 'seq_sum_k1',
      rollout_rs_threshold: '0.5_2.0',
      bypass_mode: false,
      loss_type: 'ppo_clip',
    });
    expect(rolloutCorrectionPreset('bypass_pg_token_icepop')).toMatchObject({
      bypass_mode: true,
      loss_type: 'reinforce',
    });
    expect(() => rolloutCorrectionPreset('tis')).toThrow(/unknown rollout correction preset 'tis'; known: disabled/);
  });

  test('disabled: metrics only', () => {
    const { weights, metrics } = correct(rolloutCorrectionPreset('disabled'));
    expect(weights).toBeNull();
    expect(metrics).toEqual(
      offPolicyMetrics({ oldLogProbs: double(old), rolloutLogProbs: double(rollout), responseMask: double(mask) }),
    );
  });
});
