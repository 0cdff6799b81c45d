/** mean@N, best@n, worst@n and maj@n per data source and variable, under verl's names. */
import { seededRandom } from '../algorithms/index.js';
import { mean } from './statistics.js';

export interface ValidationSample {
  dataSource: string;
  /** Samples of one prompt share it. */
  prompt: string;
  response: string;
  values: Record<string, unknown>;
}

const rounds = 1000;

/** Mean over bootstrap draws of `size` samples with replacement. */
function bootstrap<T>(
  values: readonly T[],
  size: number,
  reduce: (drawn: readonly T[]) => number,
  random: () => number,
): number {
  let sum = 0;
  for (let round = 0; round < rounds; round++)
    sum += reduce(Array.from({ length: size }, () => values[Math.floor(random() * values.length)]!));
  return sum / rounds;
}

/** The value of the answer that most samples gave; the first of them on a tie. */
export function majorityValue(drawn: readonly { answer: string; value: number }[]): number {
  const votes = new Map<string, { count: number; value: number }>();
  for (const { answer, value } of drawn) {
    const vote = votes.get(answer);
    if (vote) vote.count++;
    else votes.set(answer, { count: 1, value });
  }
  let best = { count: 0, value: 0 };
  for (const vote of votes.values()) if (vote.count > best.count) best = vote;
  return best.value;
}

function sizesUpTo(n: number): number[] {
  const sizes: number[] = [];
  for (let size = 2; size < n; size *= 2) sizes.push(size);
  return n > 1 ? [...sizes, n] : sizes;
}

function groupBy<T>(items: readonly T[], key: (item: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const item of items) {
    const group = groups.get(key(item));
    if (group) group.push(item);
    else groups.set(key(item), [item]);
  }
  return groups;
}

export function validationMetrics(samples: readonly ValidationSample[], seed = 42): Record<string, number> {
  const metrics: Record<string, number> = {};
  for (const [source, ofSource] of groupBy(samples, (sample) => sample.dataSource)) {
    const prompts = [...groupBy(ofSource, (sample) => sample.prompt).values()];
    const names = new Set(
      ofSource.flatMap((sample) =>
        Object.keys(sample.values).filter(
          (name) => typeof sample.values[name] === 'number' || typeof sample.values[name] === 'boolean',
        ),
      ),
    );
    const core = names.has('acc') ? 'acc' : 'reward';
    const largest = Math.max(...prompts.map((group) => group.length));
    for (const name of names) {
      const perPrompt = prompts.map((group) => promptMetrics(group, name, seed));
      for (const metric of new Set(perPrompt.flatMap((entry) => Object.keys(entry)))) {
        const value = mean(perPrompt.filter((entry) => metric in entry).map((entry) => entry[metric]!));
        const isCore =
          name === core && [`mean@${largest}`, `maj@${largest}/mean`, `best@${largest}/mean`].includes(metric);
        metrics[`${isCore ? 'val-core' : 'val-aux'}/${source}/${name}/${metric}`] = value;
      }
    }
  }
  return metrics;
}

function promptMetrics(group: readonly ValidationSample[], name: string, seed: number): Record<string, number> {
  const values = group.map((sample) => Number(sample.values[name]));
  const n = values.length;
  const center = mean(values);
  const metrics: Record<string, number> = { [`mean@${n}`]: center };
  if (n === 1) return metrics;
  metrics[`std@${n}`] = Math.sqrt(mean(values.map((value) => (value - center) ** 2)));
  const random = seededRandom(seed);
  for (const size of sizesUpTo(n)) {
    metrics[`best@${size}/mean`] = bootstrap(values, size, (drawn) => Math.max(...drawn), random);
    metrics[`worst@${size}/mean`] = bootstrap(values, size, (drawn) => Math.min(...drawn), random);
    const answers = group.map((sample) => sample.values.pred);
    if (answers.every((answer) => typeof answer === 'string')) {
      const pairs = values.map((value, k) => ({ answer: answers[k] as string, value }));
      metrics[`maj@${size}/mean`] = bootstrap(pairs, size, majorityValue, random);
    }
  }
  return metrics;
}
