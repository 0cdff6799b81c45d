/** What n samples per prompt say about a model: mean@n, pass@k, maj@k, each with a 95% confidence interval over prompts. */
import { seededRandom } from '../../algorithms/index.js';
import { mean } from '../statistics.js';
import { majorityValue } from '../validation-metrics.js';

export interface JudgedSample {
  score: number;
  isCorrect: boolean;
  /** The final answer, for votes; null where none was found. */
  answer: string | null;
}

export interface Estimate {
  name: string;
  value: number;
  low: number;
  high: number;
}

const rounds = 1000;
const z95 = 1.959964;

/** The unbiased estimate of Chen et al. (2021): the chance that k of n samples hold a correct one. */
export function passAtK(n: number, correct: number, k: number): number {
  if (k > n) throw new RangeError(`pass@${k} needs at least ${k} samples, there are ${n}`);
  if (n - correct < k) return 1;
  let allWrong = 1;
  for (let i = n - correct + 1; i <= n; i++) allWrong *= 1 - k / i;
  return 1 - allWrong;
}

/** The chance that a vote among k of the samples is right. Samples without an answer do not vote. */
export function majorityAtK(samples: readonly JudgedSample[], k: number, random: () => number): number {
  const vote = (drawn: readonly JudgedSample[]): number => {
    const votes = drawn.flatMap(({ answer, isCorrect }) =>
      answer === null ? [] : [{ answer, value: Number(isCorrect) }],
    );
    return votes.length === 0 ? 0 : majorityValue(votes);
  };
  if (k === samples.length) return vote(samples);
  let sum = 0;
  for (let round = 0; round < rounds / 5; round++) sum += vote(draw(samples, k, random));
  return sum / (rounds / 5);
}

/** k of the items without replacement. */
function draw<T>(items: readonly T[], k: number, random: () => number): T[] {
  const left = [...items];
  return Array.from({ length: k }, () => left.splice(Math.floor(random() * left.length), 1)[0]!);
}

/**
 * Prompts are what was sampled from the world, so intervals are over them. Shares of prompts get Wilson's interval, which
 * is right for few prompts and for shares near 0 and 1 too; other means are resampled.
 */
export function interval(perPrompt: readonly number[], seed = 42): { low: number; high: number } {
  const n = perPrompt.length;
  const center = mean(perPrompt);
  if (perPrompt.every((value) => value === 0 || value === 1)) {
    const middle = (center + z95 ** 2 / (2 * n)) / (1 + z95 ** 2 / n);
    const half = (z95 / (1 + z95 ** 2 / n)) * Math.sqrt((center * (1 - center)) / n + z95 ** 2 / (4 * n * n));
    return { low: Math.max(0, middle - half), high: Math.min(1, middle + half) };
  }
  const random = seededRandom(seed);
  const means = Array.from({ length: rounds }, () => {
    let sum = 0;
    for (let k = 0; k < n; k++) sum += perPrompt[Math.floor(random() * n)]!;
    return sum / n;
  }).sort((a, b) => a - b);
  return { low: means[Math.floor(0.025 * rounds)]!, high: means[Math.ceil(0.975 * rounds) - 1]! };
}

/** All estimates for the prompts of one data source. With different numbers of samples per prompt, k goes to the least. */
export function estimate(prompts: readonly (readonly JudgedSample[])[], seed = 42): Estimate[] {
  const n = Math.min(...prompts.map((samples) => samples.length));
  const random = seededRandom(seed);
  const over = (name: string, perPrompt: number[]): Estimate => ({
    name,
    value: mean(perPrompt),
    ...interval(perPrompt, seed),
  });
  const found = [
    over(
      `mean@${n}`,
      prompts.map((samples) => mean(samples.map(({ score }) => score))),
    ),
  ];
  const right = (samples: readonly JudgedSample[]): number => samples.filter(({ isCorrect }) => isCorrect).length;
  for (const k of [1, ...sizesUpTo(n)])
    found.push(
      over(
        `pass@${k}`,
        prompts.map((samples) => passAtK(samples.length, right(samples), k)),
      ),
    );
  if (prompts.some((samples) => samples.some(({ answer }) => answer !== null)))
    for (const k of sizesUpTo(n))
      found.push(
        over(
          `maj@${k}`,
          prompts.map((samples) => majorityAtK(samples, k, random)),
        ),
      );
  return found;
}

/** 2, 4, 8 ... and n itself. */
function sizesUpTo(n: number): number[] {
  const sizes: number[] = [];
  for (let size = 2; size < n; size *= 2) sizes.push(size);
  return n > 1 ? [...sizes, n] : sizes;
}
