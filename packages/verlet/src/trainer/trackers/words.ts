/** How numbers and times are said to a person. */

/** 0:07, 3:41, 2:03:10 */
export function clock(seconds: number): string {
  if (!Number.isFinite(seconds)) return '?';
  const whole = Math.max(0, Math.round(seconds));
  const two = (value: number): string => String(value).padStart(2, '0');
  const hours = Math.floor(whole / 3600);
  const minutes = Math.floor((whole % 3600) / 60);
  return hours > 0 ? `${hours}:${two(minutes)}:${two(whole % 60)}` : `${minutes}:${two(whole % 60)}`;
}

/** 950, 12.3k, 1.25M */
export function count(value: number): string {
  if (!Number.isFinite(value)) return String(value);
  if (Math.abs(value) >= 1e6) return `${(value / 1e6).toFixed(2)}M`;
  if (Math.abs(value) >= 1e4) return `${(value / 1e3).toFixed(1)}k`;
  return value.toFixed(0);
}

/** Three digits that matter, whatever the size. */
export function short(value: number): string {
  if (!Number.isFinite(value)) return String(value);
  const size = Math.abs(value);
  if (size === 0) return '0';
  if (size < 1e-3 || size >= 1e6) return value.toExponential(1);
  return size >= 100 ? value.toFixed(0) : size >= 10 ? value.toFixed(1) : value.toFixed(3);
}

const KL_NAMES = ['actor/kl_loss', 'actor/reward_kl_penalty', 'actor/ppo_kl'];

/** The distance to the reference when it is measured, else the distance to the policy that sampled. */
export function klOf(metrics: Readonly<Record<string, number>>): number | undefined {
  for (const name of KL_NAMES) if (metrics[name] !== undefined) return metrics[name];
  return undefined;
}

/** The scores of a validation: `val-core/gsm8k/acc/mean@1` is said as `gsm8k acc mean@1`. */
export function validationScores(metrics: Readonly<Record<string, number>>): [label: string, value: number][] {
  return Object.entries(metrics)
    .filter(([name]) => name.startsWith('val-core/'))
    .map(([name, value]) => [name.slice('val-core/'.length).replaceAll('/', ' '), value]);
}
