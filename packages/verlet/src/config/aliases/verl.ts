import { type Alias, rename, translate, withoutEffect } from './table.js';

/** Names that verl used before or uses since. */
const VERL = 'verl (older or newer)';

const perModel = (role: string): Alias[] => [
  rename(VERL, `${role}.checkpoint.contents`, `${role}.checkpoint.save_contents`),
  rename(VERL, `${role}.optim.clip_grad`, `${role}.grad_clip`),
  // Newer files carry `warmup_style: null` beside the new key; null must not undo it.
  translate(VERL, `${role}.optim.warmup_style`, (value) =>
    value === null ? [] : [[`${role}.optim.lr_scheduler_type`, value]],
  ),
];

export const rayAliases: Alias[] = [
  rename(VERL, 'ray_kwargs.ray_init.*', 'ray_init.*'),
  rename(VERL, 'ray_kwargs.timeline_json_file', 'ray_init.timeline_json_file'),
];

export const verlAliases: Alias[] = [
  ...rayAliases,
  ...perModel('actor_rollout_ref.actor'),
  ...perModel('critic'),
  rename(VERL, 'critic.fsdp.*', 'critic.model.fsdp_config.*'),
  rename(VERL, 'reward_manager.name', 'reward_model.reward_manager'),
  withoutEffect(VERL, 'reward_manager.source', 'managers are built in'),
  rename(VERL, 'reward.reward_manager.name', 'reward_model.reward_manager'),
  withoutEffect(VERL, 'reward.reward_manager.source', 'managers are built in'),
  withoutEffect(VERL, 'reward.reward_manager.module.*', 'use custom_reward_function'),
  withoutEffect(VERL, 'reward_manager.module.*', 'use custom_reward_function'),
  withoutEffect(VERL, 'reward_model.reward_loop_source', 'managers are built in'),
  withoutEffect(VERL, 'reward_model.reward_loop_module_path', 'use custom_reward_function'),
  withoutEffect(VERL, 'reward_model.reward_loop_class_name', 'use custom_reward_function'),
  rename(VERL, 'reward.custom_reward_function.*', 'custom_reward_function.*'),
  rename(VERL, 'reward.sandbox_fusion.*', 'reward_model.sandbox_fusion.*'),
  rename(VERL, 'reward.reward_model.model_path', 'reward_model.model.path'),
  rename(VERL, 'reward.reward_model.*', 'reward_model.*'),
  rename(VERL, 'reward.num_workers', 'reward_model.num_workers'),
  rename(VERL, 'reward.reward_kwargs.*', 'reward_model.reward_kwargs.*'),
  rename(VERL, 'sandbox_fusion.*', 'reward_model.sandbox_fusion.*'),
  rename(VERL, 'reward_model.overlong_buffer.*', 'reward_model.reward_kwargs.overlong_buffer_cfg.*'),
  rename(
    VERL,
    'actor_rollout_ref.rollout.multi_turn.max_turns',
    'actor_rollout_ref.rollout.multi_turn.max_assistant_turns',
  ),
  rename(
    VERL,
    'actor_rollout_ref.rollout.update_weights_bucket_megabytes',
    'actor_rollout_ref.rollout.checkpoint_engine.update_weights_bucket_megabytes',
  ),
  rename(VERL, 'custom_reward_function.overlong_buffer.*', 'reward_model.reward_kwargs.overlong_buffer_cfg.*'),
  translate(VERL, 'actor_rollout_ref.actor.use_token_level_loss', (value) => [
    ['actor_rollout_ref.actor.loss_agg_mode', value === false ? 'seq-mean-token-mean' : 'token-mean'],
  ]),
  withoutEffect(VERL, 'actor_rollout_ref.rollout.chat_scheduler', 'agent loops take its place'),
  withoutEffect(VERL, 'actor_rollout_ref.model.return_last_hidden_state', 'never needed'),
  withoutEffect(VERL, 'actor_rollout_ref.model.use_fused_loss', 'the head and loss always run in token chunks'),
  withoutEffect(
    VERL,
    'actor_rollout_ref.actor.fsdp_config.grad_offload',
    'gradients are freed after each optimiser step',
  ),
  withoutEffect(VERL, 'critic.model.fsdp_config.grad_offload', 'gradients are freed after each optimiser step'),
  rename(VERL, 'trainer.profile_steps', 'global_profiler.steps'),
  rename(VERL, 'trainer.val_generations_to_log_to_wandb', 'trainer.log_val_generations'),
];

export const sftAliases: Alias[] = [
  rename(VERL, 'model.path', 'model.partial_pretrain'),
  rename(VERL, 'optim.warmup_steps_ratio', 'optim.lr_warmup_steps_ratio'),
  rename(VERL, 'optim.lr_scheduler_type', 'optim.lr_scheduler'),
  rename(VERL, 'model.fsdp_config.cpu_offload', 'model.fsdp_config.param_offload'),
  rename(VERL, 'model.fsdp_config.offload_params', 'model.fsdp_config.param_offload'),
  ...['messages_key', 'tools_key', 'enable_thinking_key'].map((key) =>
    translate(VERL, `data.${key}`, (value) => [
      [`data.multiturn.${key}`, value],
      ['data.multiturn.enable', true],
    ]),
  ),
  translate(VERL, 'trainer.resume_path', (value) =>
    value === null
      ? []
      : [
          ['trainer.resume_from_path', value],
          ['trainer.resume_mode', 'resume_path'],
        ],
  ),
];

const SEARCH = 'Search-R1';

export const searchAliases: Alias[] = [
  rename(SEARCH, 'actor_rollout_ref.rollout.n_agent', 'actor_rollout_ref.rollout.n'),
  translate(SEARCH, 'data.train_data_num', (value) => [['data.train_max_samples', value ?? -1]]),
  translate(SEARCH, 'data.val_data_num', (value) => [['data.val_max_samples', value ?? -1]]),
  rename(SEARCH, 'data.shuffle_train_dataloader', 'data.shuffle'),
];
