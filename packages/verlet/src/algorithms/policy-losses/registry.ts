import { scope } from '@verlet/torch';
import type { LossResult, PolicyLossInput } from '../types.js';

export type PolicyLoss = (input: PolicyLossInput) => LossResult;

const losses = new Map<string, PolicyLoss>();

/**
 * Adds a loss under the name that `actor.policy_loss.loss_mode` gives.
 *
 * @example
 * registerPolicyLoss('plain', ({ logProb, advantages, responseMask, lossAggMode, counts }) => ({
 *   loss: aggLoss(logProb.mul(advantages).neg(), responseMask, lossAggMode, counts),
 *   metrics: {},
 * }));
 */
export function registerPolicyLoss(name: string, loss: PolicyLoss): void {
  const known = losses.get(name);
  if (known && known !== loss)
    throw new RangeError(`a policy loss '${name}' is registered already; choose another name`);
  losses.set(name, loss);
}

export function policyLosses(): string[] {
  return [...losses.keys()];
}

/**
 * The loss that the configuration names; `rollout_correction.bypass_mode` brings its own. The graph of the loss stays,
 * everything else made on the way is freed.
 */
export function policyLoss(input: PolicyLossInput): LossResult {
  const name = input.rolloutCorrection?.bypass_mode ? 'bypass_mode' : input.config.policy_loss.loss_mode;
  const loss = losses.get(name);
  if (!loss) throw new RangeError(`unknown policy loss '${name}'; known: ${policyLosses().join(', ')}`);
  return scope(() => loss(input));
}
