import { basename } from 'node:path';
import type { Assignment } from './assignment.js';

/**
 * Names that verl's own `defaults:` lists use. The schema holds all defaults in one place, so that most of them add
 * nothing; those for Megatron choose that strategy, whose keys are then translated.
 */
const BUILTIN: Record<string, Record<string, unknown>> = {
  ppo_trainer: {},
  ppo_megatron_trainer: {
    'actor_rollout_ref.actor.strategy': 'megatron',
    'actor_rollout_ref.ref.strategy': 'megatron',
    'critic.strategy': 'megatron',
    'reward_model.strategy': 'megatron',
  },
  sft_trainer: {},
  sft_trainer_engine: { 'data.multiturn.enable': true, 'data.use_dynamic_bsz': true },
  generation: {},
  evaluation: {},
  actor: {},
  dp_actor: {},
  megatron_actor: { strategy: 'megatron' },
  ref: {},
  dp_ref: {},
  megatron_ref: { strategy: 'megatron' },
  critic: {},
  dp_critic: {},
  megatron_critic: { strategy: 'megatron' },
  reward_model: {},
  dp_reward_model: {},
  dp_reward_loop: {},
  megatron_reward_model: { strategy: 'megatron' },
  reward: {},
  reward_manager: {},
  rollout: {},
  legacy_data: {},
  hf_model: {},
  fsdp: {},
  profiler: {},
  rollout_correction: {},
  filter_groups: {},
  distillation: {},
  npu_profile: {},
};

export function builtinAssignments(name: string): Assignment[] | null {
  const key = basename(name).replace(/\.ya?ml$/, '');
  if (!Object.hasOwn(BUILTIN, key)) return null;
  return Object.entries(BUILTIN[key]!).map(([path, value]) => ({
    path: path.split('.'),
    value,
    source: { kind: 'object', name: `built-in ${key}` },
  }));
}
