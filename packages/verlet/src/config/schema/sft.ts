import { z } from 'zod';
import {
  field,
  flag,
  fraction,
  freeForm,
  group,
  inert,
  integer,
  MISSING,
  nonNegative,
  number,
  optionalInteger,
  optionalPositiveInteger,
  optionalText,
  optionalTextOrList,
  positiveInteger,
  text,
  textOrList,
} from '../field.js';
import { TRUNCATIONS } from './data.js';
import { modelFields, sequenceParallel } from './model.js';
import { checkpointGroup, codeReference, fsdpGroup, NO_PYTHON, profilerGroup } from './parts.js';
import { deviceFields, runFields } from './trainer.js';

export const OBJECTIVES = ['sft', 'dpo', 'reward_model'] as const;
const NOT_VERL = { differs: 'not in verl' };

const data = group('Examples: where they come from and how they become tokens.', {
  train_files: field(textOrList, MISSING, 'Training rows: one or several files, folders, globs or hf:// paths.'),
  val_files: field(optionalTextOrList, null, 'Validation rows; null does not validate.', {
    differs: 'verl names a fixed file',
  }),
  train_max_samples: field(integer, -1, 'Use this many training rows; -1 is all.'),
  val_max_samples: field(integer, -1, 'Use this many validation rows; -1 is all.'),
  train_batch_size: field(positiveInteger, 256, 'Examples per optimiser step over all devices.'),
  micro_batch_size: field(
    optionalPositiveInteger,
    null,
    'Examples per forward and backward over all devices (old form; prefer _per_gpu).',
  ),
  micro_batch_size_per_gpu: field(optionalPositiveInteger, 4, 'Examples per forward and backward on one device.'),
  use_dynamic_bsz: field(flag, false, 'Fill micro-batches by tokens instead of by examples.'),
  max_token_len_per_gpu: field(positiveInteger, 8192, 'Tokens per micro-batch on one device with use_dynamic_bsz.'),
  max_length: field(positiveInteger, 1024, 'Longest example in tokens.'),
  truncation: field(z.enum(TRUNCATIONS), 'error', 'What to do with an example that is too long: fail, or cut a side.'),
  prompt_key: field(text, 'question', 'Single turn: column with the prompt.'),
  response_key: field(text, 'answer', 'Single turn: column with the response.'),
  prompt_dict_keys: field(z.array(text).nullable(), null, 'Keys to follow inside the prompt column.'),
  response_dict_keys: field(z.array(text).nullable(), null, 'Keys to follow inside the response column.'),
  multiturn: group('Whole conversations; only tokens of the assistant are learned.', {
    enable: field(flag, false, 'Read conversations instead of prompt and response.'),
    messages_key: field(text, 'messages', 'Column with the messages.'),
    tools_key: field(text, 'tools', 'Column with tool schemas.'),
    enable_thinking_key: field(text, 'enable_thinking', 'Column that switches thinking in the template.'),
  }),
  ignore_input_ids_mismatch: field(
    flag,
    false,
    'Accept templates that render a turn differently inside a conversation.',
  ),
  apply_chat_template_kwargs: field(freeForm, {}, 'Arguments of the chat template.'),
  chat_template: field(optionalText, null, "Jinja chat template to use instead of the tokenizer's."),
  shuffle: field(flag, true, 'Shuffle rows each epoch.', { differs: 'always so in verl' }),
  custom_cls: codeReference('A dataset class of your own'),
  balance_dp_token: inert(flag, false, 'Give every rank the same number of tokens.', 'always about so'),
  pad_mode: inert(
    z.enum(['right', 'no_padding', 'left_right']),
    'no_padding',
    'How a batch is laid out.',
    'sequences are always packed',
  ),
  use_shm: inert(flag, false, 'Copy data to shared memory first.', 'files are streamed'),
});

const model = group('The model to fine-tune.', {
  partial_pretrain: field(text, MISSING, 'Model to start from: a local folder or a Hugging Face id.'),
  tokenizer_path: field(optionalText, null, 'Tokenizer when it is not beside the model.'),
  ...modelFields(),
  fsdp_config: fsdpGroup({ dtypeCounts: true, seedCounts: false }),
  strategy: inert(text, 'fsdp2', "verl's training engine.", 'there is one engine'),
});

const optim = group('The optimiser and its learning-rate schedule.', {
  lr: field(nonNegative, 1e-5, 'Peak learning rate.'),
  betas: field(z.tuple([fraction, fraction]), [0.9, 0.95], 'Decay rates of the first and second moment.'),
  eps: field(nonNegative, 1e-8, 'Term added to the denominator of Adam.'),
  weight_decay: field(nonNegative, 0.01, 'Decoupled weight decay.'),
  lr_warmup_steps_ratio: field(fraction, 0.1, 'Share of all steps spent warming up.'),
  lr_warmup_steps: field(integer, -1, 'Warm-up steps; a negative number leaves it to the ratio.'),
  clip_grad: field(nonNegative, 1, 'Largest gradient norm; 0 does not clip.'),
  lr_scheduler: field(
    z.enum(['cosine', 'constant', 'linear', 'wsd']),
    'cosine',
    'Shape of the schedule after warm-up.',
  ),
  min_lr_ratio: field(fraction, 0, 'Lowest learning rate as a share of lr.'),
  num_cycles: field(number, 0.5, 'Cosine periods over the run.'),
  stable_ratio: field(fraction, 0.9, 'Share of the run after warm-up that wsd keeps at the peak.'),
  optimizer: field(z.enum(['AdamW', 'Adam', 'SGD']), 'AdamW', 'Optimiser.'),
  optimizer_impl: inert(text, 'torch.optim', 'Python module that verl takes the optimiser from.', NO_PYTHON),
  total_training_steps: inert(integer, -1, 'Steps of the schedule.', 'the length of the run is taken'),
  zero_indexed_step: inert(flag, true, 'Whether the schedule counts from 0.', 'the first step is always step 0'),
  warmup_style: inert(optionalText, null, 'Old name of lr_scheduler.', 'use lr_scheduler'),
  override_optimizer_config: inert(freeForm.nullable(), null, 'Extra arguments for a Python optimiser.', NO_PYTHON),
});

const objective = group('What is learned: given answers, or from pairs of a better and a worse one.', {
  name: field(
    z.enum(OBJECTIVES),
    'sft',
    'sft raises the likelihood of answers; dpo trains a policy on pairs, reward_model a scorer.',
    NOT_VERL,
  ),
  prompt_key: field(
    text,
    'prompt',
    'Pairs: column with the prompt; rows without it hold whole conversations.',
    NOT_VERL,
  ),
  chosen_key: field(text, 'chosen', 'Pairs: column with the better answer.', NOT_VERL),
  rejected_key: field(text, 'rejected', 'Pairs: column with the worse answer.', NOT_VERL),
  beta: field(number.gt(0), 0.1, 'dpo: how closely the policy is held to the model it starts from.', NOT_VERL),
  loss_type: field(
    z.enum(['sigmoid', 'hinge', 'ipo']),
    'sigmoid',
    'dpo: sigmoid is DPO, hinge SLiC, ipo the squared form.',
    NOT_VERL,
  ),
  label_smoothing: field(
    number.min(0).lt(0.5),
    0,
    'dpo with sigmoid: share of pairs taken to be the wrong way round.',
    NOT_VERL,
  ),
  sft_coef: field(nonNegative, 0, 'dpo: weight of the likelihood of the better answer.', NOT_VERL),
  center_rewards_coef: field(nonNegative, 0, 'reward_model: weight that keeps scores around zero.', NOT_VERL),
});

export const sftSchema = group('Fine-tuning on given answers or pairs of them: `verlet sft` (sft_trainer.yaml).', {
  data,
  model,
  optim,
  objective,
  checkpoint: checkpointGroup(),
  trainer: group('The run: length, devices, logs, checkpoints.', {
    ...runFields('gsm8k-sft', 'test'),
    total_epochs: field(positiveInteger, 4, 'Passes over the training rows.'),
    ...deviceFields(),
    seed: field(integer, 1, 'Seed of shuffling and initialisation.'),
    max_ckpt_to_keep: field(optionalInteger, null, 'Checkpoints to keep; null or 0 keeps all.'),
    launcher: field(
      z.enum(['auto', 'inline', 'process', 'ray']),
      'auto',
      'What starts ranks: auto is process for several.',
      NOT_VERL,
    ),
    worker_timeout: field(number.gt(0), 1800, 'Seconds a call to a rank may take before the run fails.', NOT_VERL),
  }),
  ulysses_sequence_parallel_size: sequenceParallel(),
  use_remove_padding: inert(flag, true, 'Pack sequences.', 'sequences are always packed'),
  engine: inert(freeForm, {}, "Engine block of verl's newer SFT file.", 'there is one engine'),
  profiler: profilerGroup(),
  custom: field(freeForm, {}, 'Free room for your own code.', { differs: 'not in verl' }),
  hydra: inert(
    freeForm,
    {},
    "Hydra's own settings; searchpath is honoured.",
    'outputs go to trainer.default_local_dir',
  ),
});
