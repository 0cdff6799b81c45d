import { type Alias, rename, translate, withoutEffect } from './table.js';

/** Megatron keys that have a counterpart. The others are declared, with what takes their place, in `schema/megatron.ts`. */
const MEGATRON = 'Megatron';

const SCHEDULES: Record<string, string> = { constant: 'constant', linear: 'linear', cosine: 'cosine', WSD: 'wsd' };

function engine(role: string, fsdp: string, model: string): Alias[] {
  return [
    ...['seed', 'dtype', 'param_offload', 'optimizer_offload'].map((key) =>
      rename(MEGATRON, `${role}.megatron.${key}`, `${fsdp}.${key}`),
    ),
    translate(MEGATRON, `${role}.megatron.override_transformer_config.recompute_granularity`, (value) =>
      value === null
        ? []
        : [
            [`${model}.enable_gradient_checkpointing`, true],
            [`${model}.recompute_granularity`, value],
          ],
    ),
    rename(
      MEGATRON,
      `${role}.megatron.override_transformer_config.recompute_num_layers`,
      `${model}.recompute_num_layers`,
    ),
    rename(MEGATRON, `${model}.override_config.model_config.*`, `${model}.override_config.*`),
    withoutEffect(MEGATRON, `${model}.override_config.model_config`, 'empty'),
    withoutEffect(MEGATRON, `${model}.override_config.moe_config.*`, 'there are no mixture-of-experts models'),
  ];
}

function optimizer(role: string): Alias[] {
  const useRatio = 'give it as a share of lr in min_lr_ratio or init_lr_ratio';
  return [
    translate(MEGATRON, `${role}.optim.lr_decay_style`, (value) => [
      [`${role}.optim.lr_scheduler_type`, typeof value === 'string' ? (SCHEDULES[value] ?? value) : value],
    ]),
    translate(MEGATRON, `${role}.optim.lr_decay_steps`, (value) => [
      [`${role}.optim.total_training_steps`, value ?? -1],
    ]),
    {
      from: `${role}.optim.min_lr`,
      family: MEGATRON,
      apply: (value) => (value === 0 ? { set: [[`${role}.optim.min_lr_ratio`, 0]] } : { ignored: useRatio }),
    },
    {
      from: `${role}.optim.lr_warmup_init`,
      family: MEGATRON,
      apply: (value) => (value === 0 ? { set: [[`${role}.optim.init_lr_ratio`, 0]] } : { ignored: useRatio }),
    },
    withoutEffect(MEGATRON, `${role}.optim.weight_decay_incr_style`, 'weight decay is constant'),
    withoutEffect(MEGATRON, `${role}.optim.lr_wsd_decay_style`, 'wsd decays by cosine'),
    withoutEffect(MEGATRON, `${role}.optim.lr_wsd_decay_steps`, 'use stable_ratio'),
    withoutEffect(MEGATRON, `${role}.optim.use_checkpoint_opt_param_scheduler`, 'the schedule is always resumed'),
  ];
}

export const megatronAliases: Alias[] = [
  ...engine('actor_rollout_ref.actor', 'actor_rollout_ref.actor.fsdp_config', 'actor_rollout_ref.model'),
  ...engine('actor_rollout_ref.ref', 'actor_rollout_ref.ref.fsdp_config', 'actor_rollout_ref.model'),
  ...engine('critic', 'critic.model.fsdp_config', 'critic.model'),
  ...engine('reward_model', 'reward_model.model.fsdp_config', 'reward_model.model').filter(
    ({ from }) => !from.includes('override_transformer_config') && !from.includes('override_config'),
  ),
  ...optimizer('actor_rollout_ref.actor'),
  ...optimizer('critic'),
  withoutEffect(MEGATRON, 'actor_rollout_ref.rollout.layer_name_map.*', 'weights are not converted between engines'),
  withoutEffect(MEGATRON, 'actor_rollout_ref.rollout.use_block_quant_rollout', 'weights are not quantised'),
];
