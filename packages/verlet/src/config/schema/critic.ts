// biome-ignore-all lint/suspicious/noTemplateCurlyInString: interpolations of the configuration language
import { z } from 'zod';
import {
  field,
  flag,
  group,
  inert,
  integer,
  nonNegative,
  optionalNumber,
  optionalPositiveInteger,
  positiveInteger,
} from '../field.js';
import { megatronGroup } from './megatron.js';
import { criticModel, sequenceParallel, strategyField } from './model.js';
import { checkpointGroup, LOSS_AGGREGATIONS, optimizerGroup, profilerGroup, rolloutNField } from './parts.js';

export const critic = group(
  'The value model of GAE; built only when algorithm.adv_estimator is gae or enable is true.',
  {
    enable: field(z.boolean().nullable(), null, 'Train a critic; null decides by the advantage estimator.'),
    strategy: strategyField('fsdp'),
    rollout_n: rolloutNField('the critic'),
    ppo_mini_batch_size: field(
      positiveInteger,
      '${actor_rollout_ref.actor.ppo_mini_batch_size}',
      'Prompts per optimiser step of the critic.',
    ),
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
    forward_micro_batch_size: field(
      optionalPositiveInteger,
      '${.ppo_micro_batch_size}',
      'Trajectories per value pass over all devices.',
    ),
    forward_micro_batch_size_per_gpu: field(
      optionalPositiveInteger,
      '${.ppo_micro_batch_size_per_gpu}',
      'Trajectories per value pass on one device.',
    ),
    use_dynamic_bsz: field(
      flag,
      '${verlet.all_null:.ppo_micro_batch_size,.ppo_micro_batch_size_per_gpu}',
      'Fill micro-batches by tokens instead of by trajectories.',
      {
        differs: "verl follows the actor's use_dynamic_bsz; here it is true when no size is given",
      },
    ),
    ppo_max_token_len_per_gpu: field(
      positiveInteger,
      32768,
      'Tokens per micro-batch on one device with use_dynamic_bsz.',
    ),
    forward_max_token_len_per_gpu: field(
      positiveInteger,
      '${.ppo_max_token_len_per_gpu}',
      'Tokens per value pass on one device.',
    ),
    ppo_epochs: field(positiveInteger, '${actor_rollout_ref.actor.ppo_epochs}', 'Passes over one batch of experience.'),
    shuffle: field(flag, '${actor_rollout_ref.actor.shuffle}', 'Shuffle trajectories before cutting mini-batches.'),
    data_loader_seed: field(integer.nullable(), '${actor_rollout_ref.actor.data_loader_seed}', 'Seed of that shuffle.'),
    cliprange_value: field(
      nonNegative,
      0.5,
      'How far a value may move from its old estimate before the loss is clipped.',
    ),
    loss_agg_mode: field(
      z.enum(LOSS_AGGREGATIONS),
      '${actor_rollout_ref.actor.loss_agg_mode}',
      'How token losses become one number.',
    ),
    loss_scale_factor: field(
      optionalNumber,
      '${actor_rollout_ref.actor.loss_scale_factor}',
      'Divisor of seq-mean-token-sum-norm.',
    ),
    grad_clip: field(nonNegative, 1, 'Largest gradient norm; 0 does not clip.'),
    ulysses_sequence_parallel_size: sequenceParallel(),
    load_weight: inert(flag, true, 'Read weights at start.', 'weights are always read'),
    nccl_timeout: inert(positiveInteger, 600, 'Seconds before a collective fails.', 'use trainer.worker_timeout'),
    model: criticModel,
    optim: optimizerGroup(1e-5),
    checkpoint: checkpointGroup(),
    megatron: megatronGroup(),
    profiler: profilerGroup(),
  },
);
