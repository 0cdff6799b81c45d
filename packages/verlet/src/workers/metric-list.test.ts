import { expect, it } from 'vitest';
import { MetricList, reduceMetrics } from './metric-list.js';

it("reduces by verl's rule: max or min anywhere in the name, else the mean", () => {
  const values = [1, 2, 6];
  const names = ['actor/grad_norm', 'a/max', 'a/min', 'rollout_probs_diff_max', 'log_ppl_diff_min', 'actor/minimum'];
  expect(reduceMetrics(Object.fromEntries(names.map((name) => [name, values])))).toEqual({
    'actor/grad_norm': 3,
    'a/max': 6,
    'a/min': 1,
    rollout_probs_diff_max: 6,
    log_ppl_diff_min: 1,
    'actor/minimum': 1,
  });
  // `max` is looked for first, and nothing is made of an empty list.
  expect(reduceMetrics({ max_of_min: values, none: [] })).toEqual({ max_of_min: 6 });
});

it('parts of one number count as one value', () => {
  const metrics = new MetricList();
  metrics.addParts([{ 'actor/pg_loss': 1 }, { 'actor/pg_loss': 2 }]);
  metrics.addParts([{ 'actor/pg_loss': 5 }]);
  expect(metrics.lists()).toEqual({ 'actor/pg_loss': [3, 5] });
  expect(metrics.reduced()).toEqual({ 'actor/pg_loss': 4 });
});
