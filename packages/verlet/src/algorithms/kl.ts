/** KL divergence between policies from the log-probabilities of sampled tokens, as a penalty, a loss and a controlled reward. */
import { scope, type Tensor } from '@verlet/torch';
import { maskedMean } from './masked.js';

/**
 * d = logp - ref. Schulman's k1, k2, k3; a trailing `+` keeps the value and takes the gradient of k2 (unbiased for the KL).
 * verl before 2026 did not strip the `+` and failed.
 */
export function klPenalty(logProb: Tensor, refLogProb: Tensor, kind: string): Tensor {
  return scope(() => {
    if (!kind.endsWith('+')) return estimate(logProb, refLogProb, kind);
    const value = estimate(logProb, refLogProb, kind.slice(0, -1)).detach();
    const carrier = estimate(logProb, refLogProb, 'k2');
    return carrier.sub(carrier.detach()).add(value);
  });
}

function estimate(logProb: Tensor, refLogProb: Tensor, kind: string): Tensor {
  const difference = logProb.sub(refLogProb);
  switch (kind) {
    case 'kl':
    case 'k1':
      return difference;
    case 'abs':
      return difference.abs();
    case 'mse':
    case 'k2':
      return difference.square().mul(0.5);
    case 'low_var_kl':
    case 'k3': {
      const reverse = difference.neg().clamp(-20, 20);
      return reverse.exp().sub(reverse).sub(1).clamp(-10, 10);
    }
    default:
      throw new RangeError(
        `unknown KL estimator '${kind}'; known: kl, k1, abs, mse, k2, low_var_kl, k3, each also with '+'`,
      );
  }
}

export interface KlController {
  readonly value: number;
  update(currentKl: number, nSteps: number): void;
  state(): { value: number };
  restore(state: { value: number }): void;
}

export class FixedKlController implements KlController {
  constructor(public value: number) {}
  update(): void {}
  state(): { value: number } {
    return { value: this.value };
  }
  restore(state: { value: number }): void {
    this.value = state.value;
  }
}

/** Ziegler et al. 2019: proportional control towards a target. */
export class AdaptiveKlController implements KlController {
  constructor(
    public value: number,
    private readonly target: number,
    private readonly horizon: number,
  ) {}
  update(currentKl: number, nSteps: number): void {
    const error = Math.min(0.2, Math.max(-0.2, currentKl / this.target - 1));
    this.value *= 1 + (error * nSteps) / this.horizon;
  }
  state(): { value: number } {
    return { value: this.value };
  }
  restore(state: { value: number }): void {
    this.value = state.value;
  }
}

export function createKlController(config: {
  type: string;
  kl_coef: number;
  horizon: number;
  target_kl: number;
}): KlController {
  if (config.type === 'fixed') return new FixedKlController(config.kl_coef);
  if (config.type === 'adaptive' && !(config.horizon > 0))
    throw new RangeError(`kl_ctrl.horizon must be positive, got ${config.horizon}`);
  if (config.type === 'adaptive') return new AdaptiveKlController(config.kl_coef, config.target_kl, config.horizon);
  throw new RangeError(`unknown kl_ctrl.type '${config.type}'; known: fixed, adaptive`);
}

export interface KlRewardInput {
  tokenLevelScores: Tensor;
  oldLogProbs: Tensor;
  refLogProb: Tensor;
  responseMask: Tensor;
  controller: KlController;
  kind: string;
}

/** Scores minus beta times the divergence; then the controller learns what the divergence was. */
export function applyKlPenalty(input: KlRewardInput): { tokenLevelRewards: Tensor; metrics: Record<string, number> } {
  const beta = input.controller.value;
  let current = 0;
  const tokenLevelRewards = scope(() => {
    const kl = klPenalty(input.oldLogProbs, input.refLogProb, input.kind)
      .maskedFill(input.responseMask.eq(0), 0)
      .mul(input.responseMask);
    current = maskedMean(kl, input.responseMask, -1).mean().item();
    return input.tokenLevelScores.sub(kl.mul(beta));
  });
  input.controller.update(current, input.tokenLevelScores.size(0));
  return { tokenLevelRewards, metrics: { 'actor/reward_kl_penalty': current, 'actor/reward_kl_penalty_coeff': beta } };
}
