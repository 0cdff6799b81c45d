import { type Alias, type AliasResult, rename, translate } from './table.js';

/** EasyR1's tree (`data / algorithm / worker / trainer`) in verl's names. */
const EASY = 'EasyR1';
const ACTOR = 'actor_rollout_ref.actor';
const MODEL = 'actor_rollout_ref.model';
const ROLLOUT = 'actor_rollout_ref.rollout';
const REF = 'actor_rollout_ref.ref';

const words = (mapping: Record<string, string>) => (value: unknown) =>
  typeof value === 'string' && Object.hasOwn(mapping, value) ? mapping[value] : value;

const lossMode = words({ default: 'vanilla', gspo_token: 'gspo' });
const lossAverage = words({ token: 'token-mean', seq: 'seq-mean-token-mean' });
const precision = words({ bf16: 'bfloat16', fp16: 'float16', fp32: 'float32' });
const optimizerName = words({ adamw: 'AdamW', adamw_bf16: 'AdamW' });

/** What `worker.actor` and `worker.critic` share. */
function trainedModel(from: string, to: string, model: string, fsdp: string): Alias[] {
  return [
    rename(EASY, `${from}.global_batch_size`, `${to}.ppo_mini_batch_size`),
    rename(EASY, `${from}.micro_batch_size_per_device_for_update`, `${to}.ppo_micro_batch_size_per_gpu`),
    rename(EASY, `${from}.max_grad_norm`, `${to}.grad_clip`),
    rename(EASY, `${from}.dynamic_batching`, `${to}.use_dynamic_bsz`),
    rename(EASY, `${from}.ulysses_size`, `${to}.ulysses_sequence_parallel_size`),
    rename(EASY, `${from}.padding_free`, `${model}.use_remove_padding`),
    rename(EASY, `${from}.model.model_path`, `${model}.path`),
    rename(EASY, `${from}.model.lora.rank`, `${model}.lora_rank`),
    rename(EASY, `${from}.model.lora.alpha`, `${model}.lora_alpha`),
    rename(EASY, `${from}.model.lora.target_modules`, `${model}.target_modules`),
    rename(EASY, `${from}.model.lora.exclude_modules`, `${model}.exclude_modules`),
    rename(EASY, `${from}.model.*`, `${model}.*`),
    rename(EASY, `${from}.optim.lr_warmup_ratio`, `${to}.optim.lr_warmup_steps_ratio`),
    translate(EASY, `${from}.optim.strategy`, (value) => [[`${to}.optim.optimizer`, optimizerName(value)]]),
    rename(EASY, `${from}.fsdp.torch_dtype`, `${fsdp}.model_dtype`),
    { from: `${from}.fsdp.*`, family: EASY, apply: () => ({ ignored: 'the worker group places parameters' }) },
    rename(EASY, `${from}.offload.offload_params`, `${fsdp}.param_offload`),
    rename(EASY, `${from}.offload.offload_optimizer`, `${fsdp}.optimizer_offload`),
    rename(EASY, `${from}.*`, `${to}.*`),
  ];
}

export const easyR1Aliases: Alias[] = [
  rename(EASY, 'data.rollout_batch_size', 'data.train_batch_size'),
  rename(EASY, 'data.mini_rollout_batch_size', 'data.gen_batch_size'),
  {
    from: 'data.val_batch_size',
    family: EASY,
    apply: (value) => (value === -1 ? { set: [['data.val_batch_size', null]] } : null),
  },
  rename(EASY, 'data.override_chat_template', `${MODEL}.custom_chat_template`),

  // The two KL switches only make sense together; `easyR1KlSwitches` says what they amount to.
  translate(EASY, 'algorithm.disable_kl', () => []),
  rename(EASY, 'algorithm.use_kl_loss', `${ACTOR}.use_kl_loss`),
  rename(EASY, 'algorithm.kl_coef', 'algorithm.kl_ctrl.kl_coef', `${ACTOR}.kl_loss_coef`),
  rename(EASY, 'algorithm.kl_type', 'algorithm.kl_ctrl.type'),
  rename(EASY, 'algorithm.kl_horizon', 'algorithm.kl_ctrl.horizon'),
  rename(EASY, 'algorithm.kl_target', 'algorithm.kl_ctrl.target_kl'),
  rename(EASY, 'algorithm.online_filtering', 'algorithm.filter_groups.enable'),
  rename(EASY, 'algorithm.filter_key', 'algorithm.filter_groups.metric'),
  rename(EASY, 'algorithm.filter_low', 'algorithm.filter_groups.low'),
  rename(EASY, 'algorithm.filter_high', 'algorithm.filter_groups.high'),

  ...trainedModel('worker.actor', ACTOR, MODEL, `${ACTOR}.fsdp_config`),
  rename(
    EASY,
    'worker.actor.micro_batch_size_per_device_for_experience',
    `${ROLLOUT}.log_prob_micro_batch_size_per_gpu`,
    `${REF}.log_prob_micro_batch_size_per_gpu`,
  ),
  rename(EASY, 'worker.actor.clip_ratio_dual', `${ACTOR}.clip_ratio_c`),
  rename(EASY, 'worker.actor.tau_positive', `${ACTOR}.tau_pos`),
  rename(EASY, 'worker.actor.tau_negative', `${ACTOR}.tau_neg`),
  rename(EASY, 'worker.actor.model.freeze_vision_tower', `${ACTOR}.freeze_vision_tower`),
  translate(EASY, 'worker.actor.loss_type', (value) => [[`${ACTOR}.policy_loss.loss_mode`, lossMode(value)]]),
  translate(EASY, 'worker.actor.loss_avg_mode', (value) => [[`${ACTOR}.loss_agg_mode`, lossAverage(value)]]),

  ...trainedModel('worker.critic', 'critic', 'critic.model', 'critic.model.fsdp_config'),
  rename(EASY, 'worker.critic.micro_batch_size_per_device_for_experience', 'critic.forward_micro_batch_size_per_gpu'),
  translate(EASY, 'worker.critic.loss_avg_mode', (value) => [['critic.loss_agg_mode', lossAverage(value)]]),

  rename(EASY, 'worker.ref.micro_batch_size_per_device_for_experience', `${REF}.log_prob_micro_batch_size_per_gpu`),
  rename(EASY, 'worker.ref.offload.offload_params', `${REF}.fsdp_config.param_offload`),
  { from: 'worker.ref.fsdp.*', family: EASY, apply: () => ({ ignored: 'the worker group places parameters' }) },
  rename(EASY, 'worker.ref.*', `${REF}.*`),

  rename(EASY, 'worker.rollout.tensor_parallel_size', `${ROLLOUT}.tensor_model_parallel_size`),
  rename(EASY, 'worker.rollout.val_override_config.*', `${ROLLOUT}.val_kwargs.*`),
  { from: 'worker.rollout.limit_images', family: EASY, apply: () => ({ ignored: 'only text is trained for now' }) },
  {
    from: 'worker.rollout.disable_tqdm',
    family: EASY,
    apply: () => ({ ignored: 'progress is shown when there is a terminal' }),
  },
  translate(EASY, 'worker.rollout.dtype', (value) => [[`${ROLLOUT}.dtype`, precision(value)]]),
  // EasyR1 samples in validation whenever a temperature is given; verl asks for do_sample as well.
  translate(EASY, 'worker.rollout.val_override_config.temperature', (value) => [
    [`${ROLLOUT}.val_kwargs.temperature`, value],
    [`${ROLLOUT}.val_kwargs.do_sample`, value !== 0],
  ]),
  rename(EASY, 'worker.rollout.*', `${ROLLOUT}.*`),

  { from: 'worker.reward.reward_function', family: EASY, apply: rewardFunction },
  { from: 'worker.reward.score_function', family: EASY, apply: rewardFunction },
  rename(EASY, 'worker.reward.reward_function_kwargs.*', 'custom_reward_function.reward_kwargs.*'),
  translate(EASY, 'worker.reward.reward_type', (value) => [
    ['reward_model.reward_manager', value === 'batch' ? 'batch' : 'naive'],
  ]),
  rename(EASY, 'worker.reward.num_cpus', 'reward_model.num_workers'),
  {
    from: 'worker.reward.skip_special_tokens',
    family: EASY,
    apply: () => ({ ignored: 'special tokens are never part of the text' }),
  },
  { from: 'worker.hybrid_engine', family: EASY, apply: () => ({ ignored: 'always so' }) },

  rename(EASY, 'trainer.val_freq', 'trainer.test_freq'),
  rename(EASY, 'trainer.val_generations_to_log', 'trainer.log_val_generations'),
  translate(EASY, 'trainer.save_limit', (value) => [
    ['trainer.max_actor_ckpt_to_keep', value === -1 ? null : value],
    ['trainer.max_critic_ckpt_to_keep', value === -1 ? null : value],
  ]),
  rename(EASY, 'trainer.total_episodes', 'trainer.total_epochs'),
  rename(EASY, 'trainer.max_try_make_batch', 'algorithm.filter_groups.max_num_gen_batches'),
  rename(EASY, 'trainer.max_steps', 'trainer.total_training_steps'),
  translate(EASY, 'trainer.save_checkpoint_path', (value) =>
    value === null ? [] : [['trainer.default_local_dir', value]],
  ),
  translate(EASY, 'trainer.save_model_only', (value) =>
    value === true
      ? [
          [`${ACTOR}.checkpoint.save_contents`, ['model']],
          ['critic.checkpoint.save_contents', ['model']],
        ]
      : [],
  ),
  translate(EASY, 'trainer.find_last_checkpoint', (value) => [
    ['trainer.resume_mode', value === true ? 'auto' : 'disable'],
  ]),
  translate(EASY, 'trainer.load_checkpoint_path', (value) =>
    value === null
      ? []
      : [
          ['trainer.resume_from_path', value],
          ['trainer.resume_mode', 'resume_path'],
        ],
  ),
  rename(EASY, 'trainer.ray_timeline', 'ray_init.timeline_json_file'),
];

/** `file.py:function`; without a name EasyR1 calls `main`. */
function rewardFunction(value: unknown): AliasResult {
  if (typeof value !== 'string') return { set: [['custom_reward_function.path', value]] };
  const [, path, name] = /^(.*?)(?::([\w$]+))?$/.exec(value)!;
  return {
    set: [
      ['custom_reward_function.path', path],
      ['custom_reward_function.name', name ?? 'main'],
    ],
  };
}

/**
 * EasyR1 has one KL, switched by `disable_kl` and placed by `use_kl_loss` (else it is in the reward), with one estimator.
 * Given what was written under EasyR1's names, the assignments that say the same here.
 */
export function easyR1KlSwitches(written: ReadonlyMap<string, unknown>): [string, unknown][] {
  const result: [string, unknown][] = [];
  if (written.has('algorithm.disable_kl') || written.has('algorithm.use_kl_loss')) {
    const disabled = written.get('algorithm.disable_kl') === true;
    const inLoss = written.get('algorithm.use_kl_loss') === true;
    result.push([`${ACTOR}.use_kl_loss`, !disabled && inLoss], ['algorithm.use_kl_in_reward', !disabled && !inLoss]);
  }
  if (written.has('algorithm.kl_penalty')) result.push([`${ACTOR}.kl_loss_type`, written.get('algorithm.kl_penalty')]);
  return result;
}
