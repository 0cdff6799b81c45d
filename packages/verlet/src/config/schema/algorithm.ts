import { z } from 'zod';
import {
  field,
  flag,
  fraction,
  freeForm,
  group,
  inert,
  nonNegative,
  number,
  optionalNumber,
  optionalText,
  positiveInteger,
  text,
} from '../field.js';
import { KL_ESTIMATORS } from './actor.js';

export const ADVANTAGE_ESTIMATORS = [
  'gae',
  'grpo',
  'grpo_vectorized',
  'grpo_passk',
  'gdpo',
  'reinforce_plus_plus',
  'reinforce_plus_plus_baseline',
  'remax',
  'rloo',
  'rloo_vectorized',
  'opo',
  'gpg',
  'optimal_token_baseline',
  'tir_optimal_token_baseline',
] as const;

const klControl = group('How strongly KL in the reward counts.', {
  type: field(z.enum(['fixed', 'adaptive']), 'fixed', 'fixed keeps kl_coef; adaptive steers towards target_kl.'),
  kl_coef: field(nonNegative, 0.001, 'Weight of KL in the reward (the first one when adaptive).'),
  horizon: field(z.number().gt(0), 10000, 'adaptive: how slowly the weight moves.'),
  target_kl: field(z.number().gt(0), 0.1, 'adaptive: KL to steer towards.'),
});

const filterGroups = group('DAPO: train only on prompts whose responses differ in score.', {
  enable: field(flag, false, 'Filter groups and generate more until the batch is full.'),
  metric: field(
    optionalText,
    null,
    'What must differ: acc, score, seq_reward, seq_final_reward or a key of the reward; null is seq_final_reward.',
  ),
  max_num_gen_batches: field(z.int(), 0, 'Most batches generated for one step; 0 or less is no limit.'),
  max_inflight_gen_batches: inert(positiveInteger, 1, 'Batches generated at once.', 'one batch at a time'),
  low: field(optionalNumber, null, 'EasyR1: keep groups whose mean lies above this, instead of by spread.', {
    differs: 'not in verl',
  }),
  high: field(optionalNumber, null, 'EasyR1: and below this.', { differs: 'not in verl' }),
});

const rolloutCorrection = group(
  'Correction for the difference between the policy that sampled and the one that trains.',
  {
    rollout_is: field(
      z.enum(['token', 'sequence']).nullable(),
      null,
      'Importance weights per token or per sequence; null is none.',
    ),
    rollout_is_threshold: field(
      z.union([number, text]),
      2,
      'Largest weight; "lo_hi" drops weights outside instead (IcePop).',
    ),
    rollout_is_batch_normalize: field(flag, false, 'Divide weights by their mean over the batch.'),
    rollout_rs: field(
      optionalText,
      null,
      'Rejection rules, comma separated: token_k1, seq_sum_k1, seq_mean_k3, seq_max_k2 ...',
    ),
    rollout_rs_threshold: field(z.union([number, text]).nullable(), null, 'Bound of each rule, in the same order.'),
    bypass_mode: field(
      flag,
      false,
      'Take the log-probabilities of sampling as the old ones and skip their recomputation.',
    ),
    loss_type: field(z.enum(['ppo_clip', 'reinforce']), 'ppo_clip', 'Loss in bypass mode.'),
  },
);

export const algorithm = group('From scores to advantages.', {
  adv_estimator: field(
    z.enum(ADVANTAGE_ESTIMATORS),
    'gae',
    'Advantage estimator; gae is PPO with a critic, grpo compares responses of one prompt.',
  ),
  gamma: field(fraction, 1, 'Discount of later rewards.'),
  lam: field(fraction, 1, 'Bias against variance in GAE.'),
  norm_adv_by_std_in_grpo: field(flag, true, 'Divide GRPO advantages by the spread of the group; false is Dr.GRPO.'),
  use_kl_in_reward: field(flag, false, 'Subtract KL to the reference policy from token rewards.'),
  kl_penalty: field(z.enum(KL_ESTIMATORS), 'kl', 'KL estimator in the reward.'),
  kl_ctrl: klControl,
  filter_groups: filterGroups,
  rollout_correction: rolloutCorrection,
  use_pf_ppo: field(flag, false, 'PF-PPO: resample trajectories by their score.'),
  pf_ppo: group('Settings of PF-PPO.', {
    reweight_method: field(z.enum(['pow', 'max_min', 'max_random']), 'pow', 'How scores become weights.'),
    weight_pow: field(number, 2, 'Exponent of pow.'),
  }),
  gdpo_reward_keys: field(z.array(text).nullable(), null, 'gdpo: reward keys normalised one by one.'),
  gdpo_reward_weights: field(z.array(number).nullable(), null, 'gdpo: their weights; null weighs them alike.'),
  no_think_rl: inert(flag, false, 'Search-R1: train without the think tag.', 'the prompt decides it'),
  state_masking: inert(freeForm, {}, 'Search-R1: marks around tool text.', 'masks come from who produced a token'),
});
