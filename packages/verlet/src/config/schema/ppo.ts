// biome-ignore-all lint/suspicious/noTemplateCurlyInString: interpolations of the configuration language
import { z } from 'zod';
import {
  field,
  flag,
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
import { actor, POLICY_LOSSES, ref } from './actor.js';
import { algorithm } from './algorithm.js';
import { critic } from './critic.js';
import { data } from './data.js';
import { actorModel } from './model.js';
import { customRewardFunction, retriever, rewardModel } from './reward.js';
import { rollout } from './rollout.js';
import { globalProfiler, rayInit, trainer } from './trainer.js';

const distillation = group('On-policy distillation: a teacher scores the tokens the student samples.', {
  enabled: field(flag, false, 'Distil.'),
  teacher_key: field(text, 'data_source', 'Column that picks the teacher.'),
  distillation_loss: group('The distillation loss.', {
    loss_mode: field(
      text,
      'k3',
      "Divergence to the teacher: an estimator of the sampled tokens (k1, k2, k3 ...), or forward_kl_topk, forward_kl_topk_tail, reverse_kl_topk_tail over the teacher's likeliest tokens.",
    ),
    topk: field(
      positiveInteger,
      32,
      'Teacher tokens kept per position by the top-k forms; the size of the vocabulary is the whole distribution.',
    ),
    use_task_rewards: field(flag, true, 'Add the policy loss of the task.'),
    distillation_loss_coef: field(nonNegative, 1, 'Weight of distillation.'),
    loss_max_clamp: field(optionalNumber, null, 'Largest divergence of a token, as a reward or with a top-k form.'),
    log_prob_min_clamp: field(optionalNumber, null, 'Smallest log-probability considered.'),
    use_policy_gradient: field(flag, false, 'Use the divergence as a reward instead of as a loss.'),
    policy_loss_mode: field(z.enum(POLICY_LOSSES), 'vanilla', 'Policy loss in that case.'),
    clip_ratio: field(number, 0.2, 'Its clip range.'),
    clip_ratio_low: field(number, '${.clip_ratio}', 'Its clip range below 1.'),
    clip_ratio_high: field(number, '${.clip_ratio}', 'Its clip range above 1.'),
  }),
  teacher_models: field(freeForm, {}, 'Teachers by name, each with model_path and key.'),
  nnodes: inert(z.int().min(0), 0, 'Nodes for teachers.', 'teachers share the devices of the run'),
  n_gpus_per_node: inert(z.int().min(0), 0, 'Devices per node for teachers.', 'teachers share the devices of the run'),
});

const rolloutSkip = group('Write rollouts to disk, or read them back instead of generating.', {
  enable: field(flag, false, 'Use stored rollouts.'),
  dump_dir: field(text, '~/.verlet/rollout_dump', 'Folder of stored rollouts.', { differs: 'verl uses ~/.verl' }),
  steps: field(z.array(z.int()), [], 'Steps it applies to; none is all.'),
  action: field(text, 'cache', 'cache reads what is there and writes what is not.'),
});

export const ppoSchema = group('Reinforcement learning: `verlet train` (ppo_trainer.yaml).', {
  data,
  actor_rollout_ref: group('The policy in its three roles.', {
    hybrid_engine: inert(flag, true, 'Actor, rollout and reference share devices.', 'always so'),
    nccl_timeout: inert(positiveInteger, 600, 'Seconds before a collective fails.', 'use trainer.worker_timeout'),
    model: actorModel,
    actor,
    ref,
    rollout,
  }),
  critic,
  reward_model: rewardModel,
  custom_reward_function: customRewardFunction,
  algorithm,
  distillation,
  trainer,
  ray_init: rayInit,
  global_profiler: globalProfiler,
  retriever,
  max_turns: field(positiveInteger, 10, 'Search-R1: most searches of one trajectory.'),
  do_search: field(flag, true, 'Search-R1: let the search agent search.'),
  skip: group('Reuse of stored rollouts while debugging.', {
    rollout: rolloutSkip,
    rollout_tq: inert(freeForm, {}, 'The same for the transfer queue.', 'use skip.rollout'),
    async_rollout: inert(freeForm, {}, 'The same for asynchronous trainers.', 'use skip.rollout'),
  }),
  transfer_queue: inert(freeForm, { enable: false }, "verl's shared storage for batches.", 'batches stay in memory'),
  custom: field(freeForm, {}, 'Free room for what your own rewards, tools and datasets want to read.', {
    differs: 'not in verl',
  }),
  hydra: inert(
    freeForm,
    {},
    "Hydra's own settings; searchpath is honoured.",
    'outputs go to trainer.default_local_dir',
  ),
  model_engine: inert(optionalText, null, 'Engine group of newer verl versions.', 'there is one engine'),
});
