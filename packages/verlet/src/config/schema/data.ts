// biome-ignore-all lint/suspicious/noTemplateCurlyInString: interpolations of the configuration language
import { z } from 'zod';
import {
  field,
  flag,
  freeForm,
  group,
  inert,
  integer,
  MISSING,
  number,
  optionalInteger,
  optionalPositiveInteger,
  optionalText,
  optionalTextOrList,
  positiveInteger,
  text,
  textOrList,
} from '../field.js';
import { codeReference, inertCodeReference, NO_PYTHON, TEXT_ONLY } from './parts.js';

export const TRUNCATIONS = ['error', 'left', 'right', 'middle'] as const;

export const data = group('Prompts: where they come from and how they become tokens.', {
  train_files: field(
    textOrList,
    MISSING,
    'Training rows: one or several files, folders, globs or hf:// paths (parquet, json, jsonl).',
  ),
  val_files: field(optionalTextOrList, null, 'Validation rows, in the same forms; null does not validate.', {
    differs: 'verl names a fixed file',
  }),
  train_weights: field(
    z.array(number.min(0)).nullable(),
    null,
    'Share of each training file in a batch; null takes rows as they are.',
    { differs: 'not in verl' },
  ),
  train_max_samples: field(integer, -1, 'Use this many training rows; -1 is all.'),
  val_max_samples: field(integer, -1, 'Use this many validation rows; -1 is all.'),
  train_batch_size: field(positiveInteger, 1024, 'Prompts per training step.'),
  gen_batch_size: field(
    optionalPositiveInteger,
    null,
    'Prompts generated at a time when groups are filtered; null is train_batch_size.',
  ),
  val_batch_size: field(optionalPositiveInteger, null, 'Prompts per validation batch; null is all at once.'),
  max_prompt_length: field(positiveInteger, 512, 'Longest prompt in tokens.'),
  max_response_length: field(positiveInteger, 512, 'Longest response in tokens.'),
  max_start_length: field(
    optionalPositiveInteger,
    null,
    'Search-R1: longest first prompt of a search conversation; null is max_prompt_length.',
  ),
  max_obs_length: field(
    optionalPositiveInteger,
    null,
    'Search-R1: longest search result in tokens; null does not cut.',
  ),
  prompt_key: field(text, 'prompt', 'Column with the chat messages (or the plain question).'),
  reward_fn_key: field(text, 'data_source', 'Column that picks the reward function and groups validation metrics.'),
  answer_key: field(optionalText, null, 'Column with the ground truth when there is no reward_model column (EasyR1).', {
    differs: 'not in verl',
  }),
  image_key: field(text, 'images', 'Column with images; rows that have some are refused for now.'),
  video_key: field(text, 'videos', 'Column with videos; rows that have some are refused for now.'),
  audio_key: field(text, 'audios', 'Column with sound; rows that have some are refused for now.'),
  format_prompt: field(optionalText, null, 'Jinja file that turns a row into the user message (EasyR1).', {
    differs: 'not in verl',
  }),
  tokenizer: inert(optionalText, null, "Tokenizer; null is the model's.", 'use actor_rollout_ref.model.tokenizer_path'),
  apply_chat_template_kwargs: field(freeForm, {}, 'Arguments of the chat template, for example enable_thinking.'),
  filter_overlong_prompts: field(flag, false, 'Leave out rows whose prompt is too long, and say how many.'),
  filter_overlong_prompts_workers: inert(
    positiveInteger,
    1,
    'Threads that measure prompts.',
    'one thread measures them',
  ),
  truncation: field(z.enum(TRUNCATIONS), 'error', 'What to do with a prompt that is too long: fail, or cut a side.'),
  shuffle: field(flag, true, 'Shuffle training rows each epoch.'),
  validation_shuffle: field(flag, false, 'Shuffle validation rows.'),
  seed: field(optionalInteger, null, 'Seed of the shuffle; null is 1.'),
  custom_cls: codeReference('A dataset class of your own'),
  sampler: group('A sampler of your own, for example a curriculum.', {
    class_path: field(optionalText, null, 'Module of the sampler.'),
    class_name: field(optionalText, null, 'Export of that module.'),
  }),
  datagen: inertCodeReference(
    'A generator that adds rows while training',
    'rows come from files; use data.custom_cls or data.sampler',
  ),
  tool_config_path: field(
    optionalText,
    '${actor_rollout_ref.rollout.multi_turn.tool_config_path}',
    'Tools whose schemas count in prompt lengths.',
  ),
  function_tool_path: field(
    optionalText,
    '${actor_rollout_ref.rollout.multi_turn.function_tool_path}',
    'Function tools whose schemas count in prompt lengths.',
  ),
  return_raw_chat: field(flag, true, 'Keep the messages beside the tokens; agent loops need them.'),
  return_raw_input_ids: inert(flag, false, 'Keep prompt tokens without chat template.', 'not supported'),
  return_full_prompt: field(flag, false, 'Keep the prompt text with chat template.'),
  dataloader_num_workers: inert(z.int().min(0), 0, 'Processes that load rows.', 'rows are streamed in this process'),
  use_shm: inert(flag, false, 'Copy data to shared memory first.', 'files are streamed'),
  trust_remote_code: inert(flag, false, 'Run Python that comes with a tokenizer.', NO_PYTHON),
  return_multi_modal_inputs: inert(flag, true, 'Prepare image and video inputs.', TEXT_ONLY),
  image_patch_size: inert(positiveInteger, 14, 'Patch size of the vision encoder.', TEXT_ONLY),
  mm_processor_kwargs: inert(freeForm, {}, 'Options of the image processor.', TEXT_ONLY),
  min_pixels: inert(optionalInteger, null, 'EasyR1: smallest image.', TEXT_ONLY),
  max_pixels: inert(optionalInteger, null, 'EasyR1: largest image.', TEXT_ONLY),
  video_fps: inert(number.nullable(), null, 'EasyR1: frames per second.', TEXT_ONLY),
  image_dir: inert(optionalText, null, 'EasyR1: folder of images.', TEXT_ONLY),
});
