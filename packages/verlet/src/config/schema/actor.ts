// biome-ignore-all lint/suspicious/noTemplateCurlyInString: interpolations of the configuration language
import { z } from 'zod';
import {
  field,
  flag,
  fraction,
  freeForm,
  group,
  inert,
  integer,
  nonNegative,
  number,
  optionalNumber,
  optionalPositiveInteger,
  positiveInteger,
} from '../field.js';
import { megatronGroup } from './megatron.js';
import { sequenceParallel, strategyField } from './model.js';
import {
  ALWAYS_PACKED,
  checkpointGroup,
  fsdpGroup,
  LOSS_AGGREGATIONS,
  logitsFields,
  optimizerGroup,
  profilerGroup,
  rolloutNField,
} from './parts.js';

export const POLICY_LOSSES = [
  'vanilla',
  'gspo',
  'sapo',
  'gpg',
  'clip_cov',
  'kl_cov',
  'geo_mean',
  'cispo',
  'dppo_tv',
  'dppo_kl',
  'dro',
  'bypass_mode',
] as const;

export const KL_ESTIMATORS = [
  'kl',
  'k1',
  'abs',
  'mse',
  'k2',
  'low_var_kl',
  'k3',
  'kl+',
  'k1+',
  'abs+',
  'mse+',
  'k2+',
  'low_var_kl+',
  'k3+',
] as const;

const policyLoss = group('Which policy loss, and the constants of those that have their own.', {
  loss_mode: field(
    z.enum(POLICY_LOSSES),
    'vanilla',
    'vanilla is PPO with dual clip; the others carry the name of their paper.',
  ),
  clip_cov_ratio: field(fraction, 0.0002, 'clip_cov: share of tokens that lose their gradient.'),
  clip_cov_lb: field(number, 1, 'clip_cov: lower bound of the covariance.'),
  clip_cov_ub: field(number, 5, 'clip_cov: upper bound of the covariance.'),
  kl_cov_ratio: field(fraction, 0.0002, 'kl_cov: share of tokens that get the KL term.'),
  ppo_kl_coef: field(nonNegative, 0.1, 'kl_cov: weight of the KL term.'),
  dro_beta: field(optionalNumber, null, 'dro: weight of the quadratic term; must be positive.'),
  rollout_correction: inert(
    freeForm.nullable(),
    null,
    'Filled in by verl at run time.',
    'algorithm.rollout_correction is read directly',
  ),
});

export const actor = group('How the policy is updated.', {
  strategy: strategyField('fsdp'),
  rollout_n: rolloutNField('the update'),
  ppo_mini_batch_size: field(positiveInteger, 256, 'Prompts per optimiser step; each counts rollout.n trajectories.'),
  ppo_micro_batch_size: field(
    optionalPositiveInteger,
    null,
    'Trajectories per forward and backward over all devices (old form; prefer _per_gpu).',
  ),
  ppo_micro_batch_size_per_gpu: field(
    optionalPositiveInteger,
    null,
    'Trajectories per forward and backward on one device.',
  ),
  use_dynamic_bsz: field(
    flag,
    '${verlet.all_null:.ppo_micro_batch_size,.ppo_micro_batch_size_per_gpu}',
    'Fill micro-batches by tokens instead of by trajectories.',
    {
      differs: 'verl has false; here it is true when no micro-batch size is given',
    },
  ),
  ppo_max_token_len_per_gpu: field(
    positiveInteger,
    16384,
    'Tokens per micro-batch on one device with use_dynamic_bsz.',
  ),
  clip_ratio: field(nonNegative, 0.2, 'PPO clip range, and the default of its two sides.'),
  clip_ratio_low: field(nonNegative, '${.clip_ratio}', 'Clip range below 1.', {
    differs: 'verl has 0.2 whatever clip_ratio is',
  }),
  clip_ratio_high: field(nonNegative, '${.clip_ratio}', 'Clip range above 1 (DAPO: 0.28).', {
    differs: 'verl has 0.2 whatever clip_ratio is',
  }),
  clip_ratio_c: field(z.number().gt(1), 3, 'Dual clip: bound of the loss for negative advantages.'),
  tau_pos: field(number, 1, 'sapo: temperature for positive advantages.'),
  tau_neg: field(number, 1.05, 'sapo: temperature for the others.'),
  policy_loss: policyLoss,
  loss_agg_mode: field(
    z.enum(LOSS_AGGREGATIONS),
    'token-mean',
    'How token losses become one number; counts are global, so micro-batches do not matter.',
  ),
  loss_scale_factor: field(
    optionalNumber,
    null,
    'seq-mean-token-sum-norm: divisor; null is the padded response length.',
  ),
  entropy_coeff: field(number, 0, 'Weight of the entropy bonus.'),
  calculate_entropy: field(flag, false, 'Report entropy even when its weight is 0.'),
  calculate_sum_pi_squared: field(
    flag,
    false,
    'Keep the sum of squared probabilities; optimal_token_baseline needs it.',
  ),
  sum_pi_squared_checkpointing: inert(flag, false, 'Recompute that sum in backward.', 'logits are always recomputed'),
  use_kl_loss: field(flag, false, 'Add KL to the reference policy to the loss (GRPO).'),
  kl_loss_coef: field(nonNegative, 0.001, 'Weight of the KL loss.'),
  kl_loss_type: field(z.enum(KL_ESTIMATORS), 'low_var_kl', 'KL estimator; a + takes the gradient of k2.'),
  ppo_epochs: field(positiveInteger, 1, 'Passes over one batch of experience.'),
  shuffle: field(flag, false, 'Shuffle trajectories before cutting mini-batches.'),
  data_loader_seed: field(integer.nullable(), 42, 'Seed of that shuffle.'),
  grad_clip: field(nonNegative, 1, 'Largest gradient norm; 0 does not clip.'),
  freeze_vision_tower: inert(flag, false, 'Do not train the vision encoder.', 'only text is trained for now'),
  state_masking: inert(
    flag,
    true,
    'Search-R1: leave tool tokens out of the loss.',
    'tokens the model did not produce are never in the loss',
  ),
  use_remove_padding: inert(
    flag,
    '${actor_rollout_ref.model.use_remove_padding}',
    'Pack sequences without padding.',
    ALWAYS_PACKED,
  ),
  use_prefix_grouper: inert(
    flag,
    false,
    'Compute a shared prompt once per group.',
    'actor_rollout_ref.model.share_prompts counts',
  ),
  use_fused_kernels: inert(flag, false, 'Fused kernels.', 'the head and loss always run in token chunks'),
  use_torch_compile: inert(flag, true, 'Compile with torch.compile.', 'there is no Python compiler in the process'),
  ulysses_sequence_parallel_size: sequenceParallel(),
  ...logitsFields(),
  pad_to_length: inert(flag, false, 'Pad packed batches to one length.', 'shapes may vary'),
  load_weight: inert(flag, true, 'Read weights at start.', 'weights are always read'),
  optim: optimizerGroup(1e-6),
  fsdp_config: fsdpGroup(),
  checkpoint: checkpointGroup(),
  megatron: megatronGroup(),
  router_replay: inert(
    freeForm,
    { mode: 'disabled' },
    'Mixture-of-experts router replay.',
    'there are no mixture-of-experts models',
  ),
  qat: inert(freeForm, {}, 'Quantisation-aware training.', 'not supported'),
  profiler: profilerGroup(),
});

/** Sizes of a pass that only computes log-probabilities. */
export const logProbFields = () => ({
  log_prob_micro_batch_size: field(
    optionalPositiveInteger,
    null,
    'Trajectories per log-probability pass over all devices (old form; prefer _per_gpu).',
  ),
  log_prob_micro_batch_size_per_gpu: field(
    optionalPositiveInteger,
    null,
    'Trajectories per log-probability pass on one device.',
  ),
  log_prob_use_dynamic_bsz: field(
    flag,
    '${verlet.all_null:.log_prob_micro_batch_size,.log_prob_micro_batch_size_per_gpu}',
    'Fill those passes by tokens.',
    {
      differs: "verl follows the actor's use_dynamic_bsz; here it is true when no size is given",
    },
  ),
  log_prob_max_token_len_per_gpu: field(
    positiveInteger,
    '${actor_rollout_ref.actor.ppo_max_token_len_per_gpu}',
    'Tokens per such pass on one device.',
  ),
});

export const ref = group('The frozen reference policy that KL is measured against.', {
  strategy: strategyField('${actor_rollout_ref.actor.strategy}'),
  rollout_n: rolloutNField('this pass'),
  ...logProbFields(),
  model: field(
    freeForm.nullable(),
    null,
    'Overrides of actor_rollout_ref.model for the reference, for example its path.',
  ),
  fsdp_config: fsdpGroup({ seed: '${actor_rollout_ref.actor.fsdp_config.seed}', seedCounts: false }),
  megatron: megatronGroup(),
  use_torch_compile: inert(flag, true, 'Compile with torch.compile.', 'there is no Python compiler in the process'),
  ulysses_sequence_parallel_size: sequenceParallel(),
  ...logitsFields('the reference has no backward'),
  pad_to_length: inert(flag, false, 'Pad packed batches to one length.', 'shapes may vary'),
  load_weight: inert(flag, true, 'Read weights at start.', 'weights are always read'),
  router_replay: inert(
    freeForm,
    { mode: 'disabled' },
    'Mixture-of-experts router replay.',
    'there are no mixture-of-experts models',
  ),
  profiler: profilerGroup(),
});
