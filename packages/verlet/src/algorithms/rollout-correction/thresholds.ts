/** `rollout_is_threshold`, `rollout_rs` and `rollout_rs_threshold` as the configuration writes them. */

export const rejectionRules = [
  'token_k1',
  'token_k2',
  'token_k3',
  'seq_sum_k1',
  'seq_sum_k2',
  'seq_sum_k3',
  'seq_mean_k1',
  'seq_mean_k2',
  'seq_mean_k3',
  'seq_max_k2',
  'seq_max_k3',
] as const;

export type RejectionRuleName = (typeof rejectionRules)[number];

export interface RejectionRule {
  name: RejectionRuleName;
  level: 'token' | 'sum' | 'mean' | 'max';
  estimator: 'k1' | 'k2' | 'k3';
  /** In log space for k1, whose bounds are ratios; null where there is none. */
  lower: number | null;
  upper: number;
}

function positive(text: string, key: string): number {
  const value = Number(text);
  if (text.trim() === '' || !(value > 0) || !Number.isFinite(value))
    throw new RangeError(`${key}: '${text}' is not a positive number`);
  return value;
}

function bounds(text: string, key: string): { lower: number; upper: number } {
  const [low, high] = text.split('_', 2) as [string, string];
  const range = { lower: positive(low, key), upper: positive(high, key) };
  if (range.lower > range.upper) throw new RangeError(`${key}: the lower bound of '${text}' is above the upper one`);
  return range;
}

/** One number truncates (`lower` null); `lo_hi` drops what lies outside. */
export function isThreshold(spec: number | string): { lower: number | null; upper: number } {
  const text = String(spec).trim();
  const key = 'rollout_is_threshold';
  return text.includes('_') ? bounds(text, key) : { lower: null, upper: positive(text, key) };
}

/** Rules with their bounds; one bound may serve all rules. */
export function parseRejection(rules: string, thresholds: number | string | null | undefined): RejectionRule[] {
  const names = [...new Set(rules.split(',').map((name) => name.trim()))].filter((name) => name !== '');
  if (names.length === 0) throw new RangeError('rollout_rs names no rule');
  for (const name of names)
    if (!(rejectionRules as readonly string[]).includes(name))
      throw new RangeError(`rollout_rs: unknown rule '${name}'; known: ${rejectionRules.join(', ')}`);
  if (thresholds === null || thresholds === undefined)
    throw new RangeError('rollout_rs needs rollout_rs_threshold: one bound, or one per rule');
  const specs = String(thresholds)
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '');
  if (specs.length !== 1 && specs.length !== names.length)
    throw new RangeError(
      `rollout_rs_threshold: ${specs.length} bounds for ${names.length} rules; give one, or one each`,
    );
  return names.map((name, k) => rule(name as RejectionRuleName, specs.length === 1 ? specs[0]! : specs[k]!));
}

function rule(name: RejectionRuleName, spec: string): RejectionRule {
  const key = `rollout_rs_threshold of ${name}`;
  const estimator = name.slice(-2) as RejectionRule['estimator'];
  const level = (name.startsWith('token') ? 'token' : name.split('_')[1]) as RejectionRule['level'];
  if (estimator !== 'k1') {
    if (spec.includes('_')) throw new RangeError(`${key}: '${spec}' is a range, but the rule has an upper bound only`);
    return { name, level, estimator, lower: null, upper: positive(spec, key) };
  }
  const upper = spec.includes('_') ? null : positive(spec, key);
  const range = upper === null ? bounds(spec, key) : { lower: 1 / upper, upper };
  return { name, level, estimator, lower: Math.log(range.lower), upper: Math.log(range.upper) };
}
