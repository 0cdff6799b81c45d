import { z } from 'zod';
import {
  flag,
  freeForm,
  group,
  inert,
  integer,
  optionalInteger,
  optionalText,
  positiveInteger,
  text,
} from '../field.js';

const DATA_PARALLEL = 'maps to data parallelism: every rank holds the whole model and takes a share of the batch';
const FOLDERS = 'maps to checkpoint folders of safetensors, which any number of ranks can read';

/**
 * The block of `ppo_megatron_trainer.yaml`. Each key says what takes its place here; keys with a real counterpart
 * (seed, dtype, offload, recomputation, schedule) are renamed by `aliases/megatron.ts` before they get here.
 */
export function megatronGroup() {
  return group(
    "Megatron's engine settings, recognised so that its command lines load; each says what takes its place.",
    {
      tensor_model_parallel_size: inert(positiveInteger, 1, 'Devices that share each matrix.', DATA_PARALLEL),
      pipeline_model_parallel_size: inert(positiveInteger, 1, 'Stages the layers are cut into.', DATA_PARALLEL),
      virtual_pipeline_model_parallel_size: inert(
        optionalInteger,
        null,
        'Interleaved stages per device.',
        DATA_PARALLEL,
      ),
      context_parallel_size: inert(positiveInteger, 1, 'Devices that share one sequence.', DATA_PARALLEL),
      expert_model_parallel_size: inert(
        positiveInteger,
        1,
        'Devices that share the experts.',
        'there are no mixture-of-experts models',
      ),
      expert_tensor_parallel_size: inert(
        optionalInteger,
        null,
        'Devices that share one expert.',
        'there are no mixture-of-experts models',
      ),
      sequence_parallel: inert(
        flag,
        true,
        'Split activations along the sequence inside a tensor-parallel group.',
        DATA_PARALLEL,
      ),
      use_distributed_optimizer: inert(
        flag,
        true,
        'Shard optimiser state over data-parallel ranks.',
        'maps to the worker group, which decides it',
      ),
      grad_offload: inert(
        flag,
        false,
        'Keep gradients in host memory between phases.',
        'gradients are freed after each optimiser step',
      ),
      use_dist_checkpointing: inert(flag, false, "Megatron's sharded checkpoints.", FOLDERS),
      dist_checkpointing_path: inert(optionalText, null, 'Folder of a sharded checkpoint.', FOLDERS),
      dist_checkpointing_prefix: inert(text, '', 'Prefix of sharded keys.', FOLDERS),
      use_mbridge: inert(
        flag,
        true,
        'Convert Hugging Face weights through a bridge.',
        'Hugging Face weights are read as they are',
      ),
      vanilla_mbridge: inert(flag, true, 'Which bridge.', 'Hugging Face weights are read as they are'),
      use_remove_padding: inert(flag, true, 'Pack sequences.', 'sequences are always packed'),
      forward_only: inert(flag, false, 'Build without optimiser.', 'decided by the role'),
      override_ddp_config: inert(freeForm, {}, 'Options of Megatron DDP.', 'maps to nothing: there is no Megatron DDP'),
      override_transformer_config: inert(
        freeForm,
        {},
        'Options of the Megatron transformer.',
        'recompute_granularity and recompute_num_layers map to those of the model, the rest to nothing',
      ),
      override_mcore_model_config: inert(freeForm, {}, 'Options of the Megatron model.', 'use model.override_config'),
      router_replay: inert(freeForm, {}, 'Mixture-of-experts router replay.', 'there are no mixture-of-experts models'),
      qat: inert(freeForm, {}, 'Quantisation-aware training.', 'not supported'),
      extra: inert(z.record(z.string(), z.unknown()), {}, 'Extra engine options.', 'maps to nothing'),
      load_weight: inert(flag, true, 'Read weights at start.', 'weights are always read'),
      nccl_timeout: inert(integer, 600, 'Seconds before a collective fails.', 'use trainer.worker_timeout'),
    },
  );
}
