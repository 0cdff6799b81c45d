/** The peers' numbers for what the trainer reports and keeps. */
import { tensor } from '@verlet/torch';
import { describe, expect, test } from 'vitest';
import { DataProto } from '../../src/protocol/index.js';
import { checkpointsToDelete } from '../../src/trainer/checkpoints.js';
import { dataMetrics, timingMetrics } from '../../src/trainer/data-metrics.js';
import { majorityValue, type ValidationSample, validationMetrics } from '../../src/trainer/validation-metrics.js';
import { reduceMetrics } from '../../src/workers/metric-list.js';
import { expectClose, vector } from './fixtures.js';

describe('metrics', () => {
  test('reduce: a name with max or min decides', () => {
    const { input, expected } = vector('metrics', 'reduce_metrics');
    expect(reduceMetrics(input as Record<string, number[]>)).toEqual(expected);
  });

  test('majority: the first value of the answer most samples gave', () => {
    const { input, expected } = vector('metrics', 'calc_maj_val');
    const drawn = (input.data as { pred: string; val: number }[]).map(({ pred, val }) => ({
      answer: pred,
      value: val,
    }));
    expect(majorityValue(drawn)).toBe(expected);
    expect(majorityValue([drawn[1]!, drawn[0]!])).toBe(0.8);
  });

  test('timing per token: generation by response tokens, the rest by all', () => {
    const { input, expected } = vector('metrics', 'compute_timing_metrics');
    const attention = input.attention_mask as number[][];
    const responseWidth = input.response_width as number;
    const batch = DataProto.fromDict({
      tensors: {
        attention_mask: tensor(attention),
        prompts: tensor(attention.map((row) => row.slice(responseWidth).map(() => 1))),
        responses: tensor(attention.map((row) => row.slice(0, responseWidth).map(() => 1))),
      },
    });
    const metrics = timingMetrics({ timing: input.timing_raw as Record<string, number>, batch, devices: 1 });
    expectClose(metrics, expected);
    expect(metrics['perf/throughput']).toBe(5);
    batch.dispose();
  });

  test('rows without a response are left out of scores but counted as aborted', () => {
    const zeros = (rows: number[][]) => tensor(rows.map((row) => row.map(() => 0)));
    const attention = [
      [1, 1, 1, 1],
      [0, 1, 0, 0],
      [1, 1, 1, 0],
    ];
    const responses = attention.map((row) => row.slice(2));
    const batch = DataProto.fromDict({
      tensors: {
        attention_mask: tensor(attention),
        prompts: zeros(attention.map((row) => row.slice(0, 2))),
        responses: zeros(responses),
        response_mask: tensor(responses),
        token_level_scores: tensor([
          [0, 1],
          [9, 9],
          [3, 0],
        ]),
        token_level_rewards: tensor([
          [0, 0.5],
          [9, 9],
          [2.5, 0],
        ]),
        advantages: tensor([
          [1, -1],
          [7, 7],
          [3, 7],
        ]),
        returns: tensor([
          [1, 2],
          [7, 7],
          [6, 7],
        ]),
        values: tensor([
          [0, 1],
          [7, 7],
          [4, 7],
        ]),
      },
    });
    const metrics = dataMetrics(batch, { useCritic: true });
    expectClose(metrics, {
      'critic/score/mean': 2,
      'critic/score/max': 3,
      'critic/score/min': 1,
      'critic/rewards/mean': 1.5,
      'critic/advantages/mean': 1,
      'critic/advantages/max': 3,
      'critic/returns/mean': 3,
      'critic/values/max': 4,
      // var(returns - values) = 1/3 over [1, 1, 2], var(returns) = 7 over [1, 2, 6].
      'critic/vf_explained_var': 1 - 1 / 3 / (7 + 1e-5),
      'response_length/mean': 1,
      'response_length/clip_ratio': 1 / 3,
      'response_length_non_aborted/mean': 1.5,
      'response_length_non_aborted/clip_ratio': 0.5,
      'response/aborted_ratio': 1 / 3,
      'prompt_length/mean': 5 / 3,
      'prompt_length/clip_ratio': 2 / 3,
    });
    batch.dispose();
  });
});

describe('validation', () => {
  const sample = (prompt: string, acc: number, pred?: string): ValidationSample => ({
    dataSource: 'gsm8k',
    prompt,
    response: '',
    values: { acc, reward: acc * 2, ...(pred !== undefined && { pred }) },
  });

  test('mean over prompts of the means over samples; the largest N is core', () => {
    const metrics = validationMetrics([sample('p', 0.8), sample('p', 0.9), sample('q', 1), sample('q', 0.7)]);
    expect(metrics['val-core/gsm8k/acc/mean@2']).toBeCloseTo(0.85, 9);
    expect(metrics['val-aux/gsm8k/acc/std@2']).toBeCloseTo((0.05 + 0.15) / 2, 9);
    expect(metrics['val-aux/gsm8k/reward/mean@2']).toBeCloseTo(1.7, 9);
    // Two draws with repetition from {0.8, 0.9}: the best is 0.9 three times of four.
    expect(metrics['val-core/gsm8k/acc/best@2/mean']).toBeCloseTo((0.875 + 0.925) / 2, 1);
    expect(metrics['val-aux/gsm8k/acc/worst@2/mean']).toBeCloseTo((0.825 + 0.775) / 2, 1);
    expect(Object.keys(metrics).some((name) => name.includes('maj@'))).toBe(false);
  });

  test('votes need an answer of every sample; sizes are 2, 4, ... and N', () => {
    const samples = [1, 1, 0, 1, 0, 1].map((acc) => sample('p', acc, acc ? '42' : '7'));
    const metrics = validationMetrics(samples);
    for (const size of [2, 4, 6])
      for (const name of ['best', 'worst', 'maj'])
        expect(
          metrics[`val-core/gsm8k/acc/${name}@${size}/mean`] ?? metrics[`val-aux/gsm8k/acc/${name}@${size}/mean`],
          `${name}@${size}`,
        ).toEqual(expect.any(Number));
    expect(metrics['val-core/gsm8k/acc/maj@6/mean']!).toBeGreaterThan(0.6);
    expect(validationMetrics(samples)).toEqual(metrics);
  });

  test('one sample per prompt has a mean only', () => {
    expect(Object.keys(validationMetrics([sample('p', 1), sample('q', 0)])).sort()).toEqual([
      'val-aux/gsm8k/reward/mean@1',
      'val-core/gsm8k/acc/mean@1',
    ]);
  });
});

describe('checkpoint', () => {
  const remaining = (steps: number[], keep: number, best: number | null = null): number[] => {
    const gone = checkpointsToDelete(steps, { keep, newest: Math.max(...steps), best });
    return steps.filter((step) => !gone.includes(step));
  };

  test('the new one is there before an old one goes', () => {
    const { input, expected } = vector('checkpoint', 'keep_1_after_save');
    const steps = [...(input.existing as number[]), input.save as number];
    expect({ remaining: remaining(steps, input.max_ckpt_to_keep as number) }).toEqual(expected);
  });

  test('besides the new one as many stay as peers leave before they save', () => {
    for (const name of ['keep_2_before_save', 'easyr1_keep_best']) {
      const { input, expected } = vector('checkpoint', name);
      const existing = input.existing as number[];
      const saving = (input.saving_step ?? Math.max(...existing) + 100) as number;
      const keep = (input.max_ckpt_to_keep ?? input.save_limit) as number;
      const kept = remaining([...existing, saving], keep, (input.best_step ?? null) as number | null);
      expect({ remaining: kept.filter((step) => step !== saving) }).toEqual(expected);
    }
  });

  test('the best is never deleted', () => {
    expect(remaining([1, 2, 3], 1, 1)).toEqual([1, 3]);
  });
});
