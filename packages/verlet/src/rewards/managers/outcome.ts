import { RewardError, type RewardExtra, type RewardInput, type RewardResult, type ScoredSample } from '../types.js';

/** What happens when a reward cannot be computed. */
export interface ErrorPolicy {
  /** Fail the whole batch with the first error. Default: count it, use `error_score`, warn. */
  strict?: boolean;
  /** The score of a sample whose reward failed. */
  error_score?: number;
  warn?: (message: string) => void;
}

export const responseLength = (input: RewardInput): number => {
  if (input.response_ids) return input.response_ids.length;
  if (input.response_mask) return input.response_mask.length;
  return Number(input.response_length ?? 0);
};

/**
 * Index of the last valid response token. An empty response has none (-1): writing to "the last column" would credit a
 * padding token.
 */
export const lastTokenPosition = (input: RewardInput): number => responseLength(input) - 1;

function extrasOf(result: Record<string, unknown>, scoreKey: string): Record<string, RewardExtra> {
  const extras: Record<string, RewardExtra> = {};
  for (const [key, value] of Object.entries(result)) {
    if (key === scoreKey || value === undefined || value === null) continue;
    const plain = typeof value === 'number' || typeof value === 'string' || typeof value === 'boolean';
    extras[key] = plain ? value : JSON.stringify(value);
  }
  return extras;
}

/** Reads a number, verl's `{score, ...}` or EasyR1's `{overall, ...}`. */
export function readResult(result: unknown): { score: number; extras: Record<string, RewardExtra> } {
  let score: unknown = result;
  let extras: Record<string, RewardExtra> = {};
  if (typeof result === 'object' && result !== null) {
    const fields = result as Record<string, unknown>;
    const key = 'score' in fields ? 'score' : 'overall';
    if (!(key in fields)) {
      throw new RewardError(
        `a reward object needs "score" or "overall", but this one has ${Object.keys(fields).join(', ') || 'no keys'}`,
      );
    }
    score = fields[key];
    extras = extrasOf(fields, key);
  }
  if (typeof score === 'boolean') score = score ? 1 : 0;
  if (typeof score !== 'number' || !Number.isFinite(score)) {
    throw new RewardError(
      `a reward must be a finite number, but this one is ${typeof score === 'number' ? score : JSON.stringify(score)}`,
    );
  }
  return { score, extras };
}

export const scored = (input: RewardInput, result: RewardResult): ScoredSample => ({
  ...readResult(result),
  tokenPosition: lastTokenPosition(input),
});

export function failed(input: RewardInput, error: unknown, policy: ErrorPolicy): ScoredSample {
  const message = error instanceof Error ? error.message : String(error);
  return { score: policy.error_score ?? 0, extras: {}, tokenPosition: lastTokenPosition(input), error: message };
}

/** One visible line for all failures of a batch; or the first of them as an exception when the policy is strict. */
export function applyErrorPolicy(
  manager: string,
  samples: readonly RewardInput[],
  results: ScoredSample[],
  policy: ErrorPolicy,
): ScoredSample[] {
  const first = results.findIndex((result) => result.error !== undefined);
  if (first < 0) return results;
  const count = results.filter((result) => result.error !== undefined).length;
  const where = `sample ${first}, data_source ${JSON.stringify(samples[first]!.data_source)}`;
  if (policy.strict) throw new RewardError(`reward manager ${manager}: ${where}: ${results[first]!.error}`);
  const warn = policy.warn ?? ((message: string) => console.warn(message));
  warn(
    `reward manager ${manager}: ${count} of ${results.length} rewards failed and score ${policy.error_score ?? 0}; first: ${where}: ${results[first]!.error}`,
  );
  return results;
}

/** Metrics of a scored batch: failures are counted, numeric extras averaged over the samples that have them. */
export function rewardMetrics(results: readonly ScoredSample[]): Record<string, number> {
  const failures = results.filter((result) => result.error !== undefined).length;
  const metrics: Record<string, number> = {
    'reward/error_count': failures,
    'reward/error_rate': results.length ? failures / results.length : 0,
  };
  const sums = new Map<string, { total: number; count: number }>();
  for (const { extras } of results) {
    for (const [key, value] of Object.entries(extras)) {
      if (typeof value === 'string') continue;
      const sum = sums.get(key) ?? { total: 0, count: 0 };
      sum.total += Number(value);
      sum.count += 1;
      sums.set(key, sum);
    }
  }
  for (const [key, { total, count }] of sums) metrics[`reward/${key}`] = total / count;
  return metrics;
}
