/** Advantage estimators by name. The first of them; a user adds one with `registerAdvantage`. */
import { scope, stack, type Tensor, tensor, where, zeros } from '@verlet/torch';
import { maskedWhiten } from './masked.js';
import type { AdvantageInput, Advantages } from './types.js';

export type AdvantageEstimator = (input: AdvantageInput) => Advantages;

const estimators = new Map<string, AdvantageEstimator>();

export function registerAdvantage(name: string, estimator: AdvantageEstimator): void {
  estimators.set(name, estimator);
}

export function computeAdvantage(name: string, input: AdvantageInput): Advantages {
  const estimator = estimators.get(name);
  if (!estimator)
    throw new RangeError(`unknown advantage estimator '${name}'; known: ${[...estimators.keys()].join(', ')}`);
  return scope(() => estimator(input));
}

/** Rows of each group, in order of first appearance. */
export function groupRows(groupIds: readonly string[]): number[][] {
  const groups = new Map<string, number[]>();
  for (const [row, id] of groupIds.entries()) {
    const rows = groups.get(id);
    if (rows) rows.push(row);
    else groups.set(id, [row]);
  }
  return [...groups.values()];
}

/** Generalized advantage estimation; positions outside the mask are stepped over, whatever their value says. */
registerAdvantage('gae', ({ tokenLevelRewards, responseMask, values, gamma, lam }) => {
  if (!values) throw new RangeError('gae needs values from a critic');
  const steps = tokenLevelRewards.size(1);
  const columns: Tensor[] = [];
  let nextValue: Tensor = zeros([tokenLevelRewards.size(0)], { device: tokenLevelRewards.device });
  let advantage = nextValue;
  for (let t = steps - 1; t >= 0; t--) {
    const on = responseMask.select(1, t).gt(0);
    const value = values.select(1, t);
    const delta = tokenLevelRewards.select(1, t).add(nextValue.mul(gamma)).sub(value);
    const own = delta.add(advantage.mul(gamma * lam));
    advantage = where(on, own, advantage);
    nextValue = where(on, value, nextValue);
    columns.push(advantage);
  }
  const raw = stack(columns.reverse(), 1);
  return { advantages: maskedWhiten(raw, responseMask), returns: raw.add(values) };
});

/** The score of a row against its group's mean, over its spread unless `normAdvByStd` is off (Dr.GRPO). */
registerAdvantage('grpo', ({ tokenLevelRewards, responseMask, groupIds, normAdvByStd }) => {
  const scores = tokenLevelRewards.sum(-1).toFloat64Array();
  const centered = new Float64Array(scores.length);
  for (const rows of groupRows(groupIds)) {
    const alone = rows.length === 1;
    const mean = alone ? 0 : rows.reduce((sum, row) => sum + scores[row]!, 0) / rows.length;
    const variance = rows.reduce((sum, row) => sum + (scores[row]! - mean) ** 2, 0) / Math.max(1, rows.length - 1);
    const spread = alone ? 1 : Math.sqrt(variance);
    for (const row of rows) centered[row] = (scores[row]! - mean) / (normAdvByStd ? spread + 1e-6 : 1);
  }
  const advantages = tensor(centered, { dtype: 'float32', device: tokenLevelRewards.device })
    .unsqueeze(1)
    .mul(responseMask);
  return { advantages, returns: advantages.clone() };
});
