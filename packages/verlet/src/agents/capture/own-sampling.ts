import { NEUTRAL_SAMPLING } from '../../rollout/sampling-params.js';
import type { SamplingParams } from '../../rollout/types.js';
import { type AgentConfig, withoutUndefined } from '../types.js';

/**
 * What a program's own settings change about a call. In training they may end an answer early, but not choose another
 * distribution than the policy's: samples at temperature 0 are all the same, and what was cut by top-p was never the policy.
 */
export function ownSampling(
  asked: SamplingParams = {},
  { programSampling, sampling }: Pick<AgentConfig, 'programSampling' | 'sampling'>,
): { own: SamplingParams; isOverruled: boolean } {
  const own = withoutUndefined({ ...asked });
  if (programSampling === 'program') return { own, isOverruled: false };
  const configured: SamplingParams = { ...NEUTRAL_SAMPLING, ...sampling };
  const shaping = Object.keys(NEUTRAL_SAMPLING) as (keyof typeof NEUTRAL_SAMPLING)[];
  const isOverruled = shaping.some((key) => own[key] !== undefined && own[key] !== configured[key]);
  for (const key of shaping) delete own[key];
  return { own, isOverruled };
}
