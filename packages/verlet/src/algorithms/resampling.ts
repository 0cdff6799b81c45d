/** PF-PPO (Shen and Zhang 2024): rows are drawn again, with repetition, by what their scores are worth. */
import { type Random, seededRandom } from './random.js';

export interface PfPpoConfig {
  reweight_method: 'pow' | 'max_min' | 'max_random';
  weight_pow: number;
}

/** `pow`: |score|^p; `max_min`: only the best and the worst; `max_random`: the best 0.4, others 0.1. */
export function pfPpoWeights(scores: readonly number[], config: PfPpoConfig): number[] {
  const max = scores.reduce((a, b) => Math.max(a, b), Number.NEGATIVE_INFINITY);
  const min = scores.reduce((a, b) => Math.min(a, b), Number.POSITIVE_INFINITY);
  const weightOf = (score: number): number => {
    switch (config.reweight_method) {
      case 'pow':
        return Math.abs(score) ** config.weight_pow;
      case 'max_min':
        return score === max || score === min ? 1 : 0;
      case 'max_random':
        return score === max ? 0.4 : 0.1;
      default:
        throw new RangeError(
          `unknown pf_ppo.reweight_method '${config.reweight_method as string}'; known: pow, max_min, max_random`,
        );
    }
  };
  return scores.map((score) => Math.max(weightOf(score) + 1e-8, 1e-8));
}

/** As many row numbers as there are rows, drawn by weight. */
export function pfPpoResample(
  scores: readonly number[],
  config: PfPpoConfig,
  random: Random = seededRandom(42),
): number[] {
  let total = 0;
  const steps = pfPpoWeights(scores, config).map((weight) => {
    total += weight;
    return total;
  });
  return scores.map(() => {
    const target = random() * total;
    let [low, high] = [0, steps.length - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (steps[middle]! > target) high = middle;
      else low = middle + 1;
    }
    return low;
  });
}
