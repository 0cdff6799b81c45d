import { scope } from '@verlet/torch';
import type { AdvantageInput, Advantages } from '../types.js';

export type AdvantageEstimator = (input: AdvantageInput) => Advantages;

const estimators = new Map<string, AdvantageEstimator>();

/**
 * Adds an estimator under the name that `algorithm.adv_estimator` gives.
 *
 * @example
 * registerAdvantage('centered', ({ tokenLevelRewards, responseMask }) => {
 *   const scores = tokenLevelRewards.sum(-1);
 *   const advantages = scores.sub(scores.mean()).unsqueeze(1).mul(responseMask);
 *   return { advantages, returns: advantages.clone() };
 * });
 */
export function registerAdvantage(name: string, estimator: AdvantageEstimator): void {
  const known = estimators.get(name);
  if (known && known !== estimator)
    throw new RangeError(`an advantage estimator '${name}' is registered already; choose another name`);
  estimators.set(name, estimator);
}

export function advantageEstimators(): string[] {
  return [...estimators.keys()];
}

export function computeAdvantage(name: string, input: AdvantageInput): Advantages {
  const estimator = estimators.get(name);
  if (!estimator)
    throw new RangeError(`unknown advantage estimator '${name}'; known: ${advantageEstimators().join(', ')}`);
  const rows = input.tokenLevelRewards.size(0);
  if (input.groupIds.length !== rows)
    throw new RangeError(`${rows} rows of rewards but ${input.groupIds.length} group ids`);
  return scope(() => estimator(input));
}
