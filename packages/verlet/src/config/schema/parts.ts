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
  optionalText,
  positiveInteger,
  text,
} from '../field.js';

/** Blocks that several parts of the tree share. */

export const NO_PYTHON = 'no Python code is loaded';
export const OWN_SHARDING = 'parameters are placed by the worker group, not by FSDP wrapping rules';
export const ONE_ENGINE = 'sampler and trainer are one model in one process';
export const TEXT_ONLY = 'only text is trained for now';
export const ALWAYS_PACKED = 'sequences are always packed';
export const NOT_SPLIT = 'a model or a sequence is not split over devices';

export const LOSS_AGGREGATIONS = [
  'token-mean',
  'token-sum',
  'seq-mean-token-sum',
  'seq-mean-token-sum-norm',
  'seq-mean-token-mean',
] as const;

export function optimizerGroup(learningRate: number) {
  return group('The optimiser and its learning-rate schedule.', {
    optimizer: field(
      z.enum(['AdamW', 'Adam', 'SGD', 'adam', 'sgd']),
      'AdamW',
      'Optimiser; adam and sgd are Megatron spellings.',
    ),
    optimizer_impl: inert(text, 'torch.optim', 'Python module that verl takes the optimiser from.', NO_PYTHON),
    lr: field(nonNegative, learningRate, 'Peak learning rate.'),
    lr_warmup_steps_ratio: field(
      fraction,
      0,
      'Share of all optimiser steps spent warming up; used when lr_warmup_steps is negative.',
    ),
    lr_warmup_steps: field(integer, -1, 'Warm-up steps; a negative number leaves it to lr_warmup_steps_ratio.'),
    total_training_steps: field(integer, -1, 'Steps the schedule is laid out for; -1 takes the length of the run.'),
    weight_decay: field(nonNegative, 0.01, 'Decoupled weight decay.'),
    betas: field(z.tuple([fraction, fraction]), [0.9, 0.999], 'Decay rates of the first and second moment.'),
    eps: field(nonNegative, 1e-8, 'Term added to the denominator of Adam.'),
    min_lr_ratio: field(fraction.nullable(), 0, 'Lowest learning rate as a share of lr (cosine and wsd); null is 0.'),
    init_lr_ratio: field(
      fraction.nullable(),
      null,
      'Learning rate at step 0 as a share of lr; null starts warm-up at 0.',
    ),
    num_cycles: field(number, 0.5, 'Cosine periods over the run; 0.5 falls once from the peak to the minimum.'),
    stable_ratio: field(fraction, 0.9, 'Share of the run after warm-up that wsd keeps at the peak.'),
    lr_scheduler_type: field(
      z.enum(['constant', 'cosine', 'linear', 'wsd']),
      'constant',
      'Shape of the schedule after warm-up.',
    ),
    zero_indexed_step: inert(flag, true, 'Whether the schedule counts from 0.', 'the first step is always step 0'),
    override_optimizer_config: inert(freeForm.nullable(), null, 'Extra arguments for a Python optimiser.', NO_PYTHON),
  });
}

/** How verl bounds the memory of logits; here the head does so by itself. */
export const logitsFields = (recomputes = 'the head keeps small logits and computes large ones again') => ({
  entropy_from_logits_with_chunking: inert(
    flag,
    false,
    'Compute entropy in chunks.',
    'logits are always processed in chunks',
  ),
  entropy_from_logits_chunk_size: inert(
    positiveInteger,
    2048,
    'Tokens per entropy chunk.',
    'the engine picks the chunk',
  ),
  entropy_checkpointing: inert(flag, false, 'Recompute entropy in backward.', recomputes),
});

const DTYPES = z.enum(['fp32', 'bf16', 'fp16', 'float32', 'bfloat16', 'float16']);
const SEED = 'Seed of everything random in training on this model.';

/** In training with rollouts the sampler's precision is everyone's, and models that are not trained draw nothing. */
export interface FsdpOptions {
  seed?: number | '${actor_rollout_ref.actor.fsdp_config.seed}';
  dtypeCounts?: boolean;
  seedCounts?: boolean;
}

export function fsdpGroup({ seed = 42, dtypeCounts = false, seedCounts = true }: FsdpOptions = {}) {
  const precision = 'Precision of forward and backward on a GPU; the CPU computes in float32.';
  return group("verl's FSDP settings: seed (and in fine-tuning precision) count, placement flags do not.", {
    model_dtype: inert(
      DTYPES,
      'fp32',
      'Precision of the parameters the optimiser updates.',
      'the optimiser always updates float32 copies',
    ),
    dtype: dtypeCounts
      ? field(DTYPES, 'bfloat16', precision)
      : inert(
          DTYPES,
          'bfloat16',
          precision,
          'sampler and trainer share one model, bfloat16 on GPUs and float32 on CPUs',
        ),
    seed: seedCounts ? field(integer, seed, SEED) : inert(integer, seed, SEED, 'nothing random is drawn'),
    full_determinism: inert(flag, false, 'Use deterministic kernels only, at some cost in speed.', 'not supported'),
    fsdp_size: inert(integer, -1, 'Ranks in one sharding group; -1 is all of them.', OWN_SHARDING),
    param_offload: inert(flag, false, 'Keep parameters in host memory between phases.', ONE_ENGINE),
    optimizer_offload: inert(flag, false, 'Keep optimiser state in host memory between phases.', ONE_ENGINE),
    offload_policy: inert(flag, false, 'FSDP2 CPU offload.', ONE_ENGINE),
    reshard_after_forward: inert(
      z.union([flag, integer]),
      true,
      'Free gathered parameters after forward.',
      OWN_SHARDING,
    ),
    forward_prefetch: inert(flag, false, 'Gather the next layer early.', OWN_SHARDING),
    wrap_policy: inert(freeForm, { min_num_params: 0 }, 'Which modules FSDP wraps.', OWN_SHARDING),
    use_orig_params: inert(flag, false, 'FSDP1 flat or original parameters.', OWN_SHARDING),
    mixed_precision: inert(freeForm.nullable(), null, 'FSDP1 mixed-precision dtypes.', 'dtype and model_dtype say it'),
    use_torch_compile: inert(
      flag,
      true,
      'Compile the model with torch.compile.',
      'there is no Python compiler in the process',
    ),
    ulysses_sequence_parallel_size: inert(positiveInteger, 1, 'Devices one sequence is spread over.', NOT_SPLIT),
    ...logitsFields(),
    use_no_sync_for_gradient_accumulation: inert(flag, true, 'Reduce gradients once per optimiser step.', 'always so'),
    pad_to_length: inert(flag, false, 'Pad packed batches to one length.', 'shapes may vary'),
    pad_to_length_bucket: inert(positiveInteger, 1024, 'Length bucket of padding.', 'shapes may vary'),
    forward_only: inert(flag, false, 'Build without optimiser.', 'decided by the role'),
    strategy: inert(text, 'fsdp', 'FSDP generation.', OWN_SHARDING),
    qat: inert(freeForm, {}, 'Quantisation-aware training.', 'not supported'),
    turbo_config: inert(freeForm, {}, 'FSDP turbo settings.', OWN_SHARDING),
  });
}

export function checkpointGroup() {
  const contents = z.array(z.enum(['model', 'optimizer', 'extra', 'hf_model']));
  return group('What a checkpoint holds.', {
    save_contents: field(
      contents,
      ['model', 'optimizer', 'extra'],
      'Parts to save; hf_model adds a folder that transformers can load.',
    ),
    load_contents: field(contents, '${.save_contents}', 'Parts to read when resuming.'),
    async_save: inert(flag, false, 'Write while training goes on.', 'checkpoints are written at once and atomically'),
    strict: inert(flag, true, 'Fail on keys that do not match.', 'always strict'),
    mbridge_config: inert(freeForm, {}, 'Megatron bridge options.', 'there is no Megatron'),
  });
}

export function profilerGroup() {
  return inert(
    freeForm,
    {},
    "Profiler of this role (verl's nsys, npu, torch and torch_memory blocks).",
    'use global_profiler',
  );
}

export function codeReference(what: string) {
  return group(`${what}.`, {
    path: field(optionalText, null, 'TypeScript or JavaScript module; null uses the built-in one.'),
    name: field(optionalText, null, 'Export to use; null takes the default export.'),
  });
}

export function inertCodeReference(what: string, reason: string) {
  return group(`${what}.`, {
    path: inert(optionalText, null, 'Python module of it.', reason),
    name: inert(optionalText, null, 'Name in that module.', reason),
  });
}

/** The number of samples per prompt is written once. */
export const rolloutNField = (who: string) =>
  inert(
    positiveInteger,
    '${actor_rollout_ref.rollout.n}',
    `Samples per prompt, as ${who} sees it.`,
    'actor_rollout_ref.rollout.n counts',
  );

export function loraFields() {
  return {
    lora_rank: field(z.int().min(0), 0, 'Rank of LoRA adapters; 0 trains all parameters.'),
    lora_alpha: field(number, 16, 'LoRA scale; an adapter counts alpha / rank.'),
    target_modules: field(
      z.union([text, z.array(text)]),
      'all-linear',
      'Modules that get an adapter: all-linear, or names.',
    ),
    exclude_modules: field(
      z.union([text, z.array(text)]).nullable(),
      null,
      'Modules left without adapter: names or a pattern.',
    ),
    lora_adapter_path: field(optionalText, null, 'Adapter to start from, in PEFT format.'),
  };
}
