// biome-ignore-all lint/suspicious/noTemplateCurlyInString: interpolations of the configuration language
import { z } from 'zod';
import { field, flag, freeForm, group, inert, MISSING, optionalText, positiveInteger, text } from '../field.js';
import { ALWAYS_PACKED, fsdpGroup, loraFields, NO_PYTHON, NOT_SPLIT } from './parts.js';

const READS_TOKENS = 'the critic reads the tokens of the policy';

/** What every block that names a model to train has. */
export const modelFields = () => ({
  hf_config_path: field(optionalText, null, 'Folder with config.json when it is not beside the weights.'),
  use_shm: inert(flag, false, 'Copy weights to shared memory first.', 'weights are memory-mapped'),
  trust_remote_code: inert(flag, false, 'Run Python that comes with a model.', NO_PYTHON),
  custom_chat_template: field(
    optionalText,
    null,
    "Jinja chat template to use instead of the tokenizer's: the text or a file.",
  ),
  external_lib: inert(optionalText, null, 'Python package that registers models.', NO_PYTHON),
  override_config: field(freeForm, {}, "Values that replace those of the model's config.json."),
  enable_gradient_checkpointing: field(flag, true, 'Recompute activations in backward instead of keeping them.'),
  recompute_granularity: field(
    z.enum(['selective', 'full']),
    'selective',
    "What enable_gradient_checkpointing recomputes: 'selective' the norms and the feed-forward part's wide projection (most of the memory for a tenth of the speed), 'full' everything inside a layer.",
  ),
  recompute_num_layers: field(
    z.number().int().min(0).nullable(),
    null,
    'How many layers, from the first, recompute; the others keep everything. Null: all of them.',
  ),
  enable_activation_offload: inert(
    flag,
    false,
    'Move activations to host memory.',
    'boundary activations stay on the device',
  ),
  use_remove_padding: inert(flag, true, 'Pack sequences without padding.', ALWAYS_PACKED),
  ...loraFields(),
  lora: inert(freeForm, {}, "Megatron's PEFT block; use lora_rank and its neighbours.", 'there is no Megatron'),
  use_liger: inert(flag, false, 'Liger kernels.', 'Verlet has kernels of its own'),
  use_fused_kernels: inert(
    flag,
    false,
    'Fused linear and log-probability kernel.',
    'the head and loss always run in token chunks',
  ),
  fused_kernel_options: inert(
    freeForm,
    { impl_backend: 'torch' },
    'Backend of the fused kernel.',
    'the head and loss always run in token chunks',
  ),
  tiled_mlp: inert(
    freeForm,
    { enabled: false, num_shards: 4 },
    'Compute the MLP in tiles to save memory.',
    'enable_gradient_checkpointing recomputes its wide projection instead',
  ),
  mtp: inert(freeForm, { enable: false }, 'Multi-token prediction heads.', 'not supported'),
});

const sharePrompts = () =>
  field(
    flag,
    true,
    'Compute a prompt once for all rows of a micro-batch that have it (the samples of a group), in training and scoring.',
    { differs: 'not in verl' },
  );

export const actorModel = group('The policy: one model shared by actor, rollout and (as a frozen copy) reference.', {
  path: field(text, MISSING, 'Model to train: a local folder or a Hugging Face id.'),
  tokenizer_path: field(optionalText, null, 'Tokenizer when it is not beside the model.'),
  share_prompts: sharePrompts(),
  ...modelFields(),
});

export const criticModel = group('The value model: a language model with a scalar head.', {
  path: field(text, '${actor_rollout_ref.model.path}', 'Model the critic starts from.', {
    differs: 'verl names a fixed folder',
  }),
  tokenizer_path: inert(optionalText, '${actor_rollout_ref.model.path}', 'Tokenizer of the critic.', READS_TOKENS),
  share_prompts: sharePrompts(),
  ...modelFields(),
  custom_chat_template: inert(optionalText, null, 'Chat template of the critic.', READS_TOKENS),
  fsdp_config: fsdpGroup(),
});

/** `generation.yaml` and `sft_trainer.yaml` carry a smaller model block. */
export const generationModel = group('The model that answers.', {
  path: field(text, MISSING, 'Model: a local folder, a checkpoint or a Hugging Face id.'),
  tokenizer_path: field(optionalText, null, 'Tokenizer when it is not beside the model.'),
  lora_adapter_path: field(optionalText, null, 'Adapter to apply, in PEFT format.'),
  custom_chat_template: field(
    optionalText,
    null,
    "Jinja chat template to use instead of the tokenizer's: the text or a file.",
  ),
  override_config: field(freeForm, {}, "Values that replace those of the model's config.json."),
  external_lib: inert(optionalText, null, 'Python package that registers models.', NO_PYTHON),
  trust_remote_code: inert(flag, false, 'Run Python that comes with a model.', NO_PYTHON),
});

export const rewardModelModel = group('Weights and tokenizer of a learned reward.', {
  path: field(optionalText, null, 'Sequence-classification model to score with.', {
    differs: 'verl names a fixed folder',
  }),
  input_tokenizer: inert(
    optionalText,
    '${actor_rollout_ref.model.path}',
    'Tokenizer that made the tokens to be scored; null when both are the same.',
    'the conversation is written with the tokenizer and template of the reward model',
  ),
  external_lib: inert(optionalText, null, 'Python package that registers models.', NO_PYTHON),
  trust_remote_code: inert(flag, false, 'Run Python that comes with a model.', NO_PYTHON),
  use_shm: inert(flag, false, 'Copy weights to shared memory first.', 'weights are memory-mapped'),
  use_remove_padding: inert(flag, true, 'Pack sequences without padding.', ALWAYS_PACKED),
  use_fused_kernels: inert(flag, false, 'Fused kernels.', 'Verlet has kernels of its own'),
  fsdp_config: fsdpGroup({ seedCounts: false }),
});

export const sequenceParallel = () =>
  inert(positiveInteger, 1, 'Devices one sequence is spread over (Ulysses); needs use_remove_padding.', NOT_SPLIT);

export const strategyField = (defaultValue: 'fsdp' | '${actor_rollout_ref.actor.strategy}') =>
  inert(
    z.enum(['fsdp', 'fsdp2', 'megatron', 'veomni', 'torchtitan', 'automodel', 'ddp']),
    defaultValue,
    "verl's training engine.",
    'there is one engine; megatron keys are translated where they have a counterpart',
  );
