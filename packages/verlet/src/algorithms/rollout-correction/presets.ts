/** Settings of `algorithm.rollout_correction` by the names that papers and verl's pages use. */
import type { RolloutCorrectionConfig } from '../types.js';

const off: RolloutCorrectionConfig = {
  rollout_is: null,
  rollout_is_threshold: 2,
  rollout_is_batch_normalize: false,
  rollout_rs: null,
  rollout_rs_threshold: null,
  bypass_mode: false,
  loss_type: 'ppo_clip',
};

const tokenIs = { rollout_is: 'token', rollout_is_threshold: 2 } as const;
const sequenceIs = { rollout_is: 'sequence', rollout_is_threshold: 2 } as const;
const icePop = { rollout_is: 'token', rollout_is_threshold: '0.5_5.0' } as const;
const geometric = { rollout_rs: 'seq_mean_k1', rollout_rs_threshold: '0.999_1.001' } as const;
const k3 = { rollout_rs: 'seq_mean_k3', rollout_rs_threshold: 0.01 } as const;
const bypassClip = { bypass_mode: true, loss_type: 'ppo_clip' } as const;
const bypassGradient = { bypass_mode: true, loss_type: 'reinforce' } as const;

const presets = {
  disabled: {},
  decoupled_token_is: tokenIs,
  decoupled_seq_is: sequenceIs,
  decoupled_token_icepop: icePop,
  decoupled_seq_is_rs: { ...sequenceIs, rollout_rs: 'seq_sum_k1', rollout_rs_threshold: '0.5_2.0' },
  decoupled_geo_rs: geometric,
  decoupled_geo_rs_seq_tis: { ...geometric, ...sequenceIs },
  decoupled_geo_rs_token_tis: { ...geometric, ...tokenIs },
  decoupled_k3_rs: k3,
  decoupled_k3_rs_seq_tis: { ...k3, ...sequenceIs },
  decoupled_k3_rs_token_tis: { ...k3, ...tokenIs },
  bypass_ppo_clip: bypassClip,
  bypass_ppo_clip_geo_rs: { ...bypassClip, ...geometric },
  bypass_ppo_clip_k3_rs: { ...bypassClip, ...k3 },
  bypass_pg_is: { ...bypassGradient, ...sequenceIs },
  bypass_pg_token_icepop: { ...bypassGradient, ...icePop },
  bypass_pg_geo_rs: { ...bypassGradient, ...geometric },
  bypass_pg_geo_rs_seq_tis: { ...bypassGradient, ...geometric, ...sequenceIs },
  bypass_pg_geo_rs_token_tis: { ...bypassGradient, ...geometric, ...tokenIs },
} satisfies Record<string, Partial<RolloutCorrectionConfig>>;

export type RolloutCorrectionPreset = keyof typeof presets;

export const rolloutCorrectionPresets = Object.keys(presets) as RolloutCorrectionPreset[];

/** A preset, with some of its settings changed. */
export function rolloutCorrectionPreset(
  name: string,
  overrides: Partial<RolloutCorrectionConfig> = {},
): RolloutCorrectionConfig {
  if (!Object.hasOwn(presets, name))
    throw new RangeError(`unknown rollout correction preset '${name}'; known: ${rolloutCorrectionPresets.join(', ')}`);
  return { ...off, ...presets[name as RolloutCorrectionPreset], ...overrides };
}
