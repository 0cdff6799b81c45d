import {
  field,
  flag,
  freeForm,
  group,
  inert,
  MISSING,
  optionalText,
  positiveInteger,
  text,
  textOrList,
} from '../field.js';
import { logProbFields } from './actor.js';
import { generationModel, sequenceParallel, strategyField } from './model.js';
import { fsdpGroup } from './parts.js';
import { customRewardFunction } from './reward.js';
import { samplingFields } from './rollout.js';
import { deviceFields, rayInit } from './trainer.js';

const { log_prob_micro_batch_size, log_prob_micro_batch_size_per_gpu } = logProbFields();

export const generationSchema = group('Offline generation: `verlet generate` (generation.yaml).', {
  trainer: group('Devices.', deviceFields()),
  data: group('Prompts in, responses out.', {
    path: field(textOrList, MISSING, 'Rows to answer: parquet, json or jsonl.'),
    output_path: field(text, MISSING, 'Parquet or jsonl file to write: the rows, with a column of responses.'),
    prompt_key: field(text, 'prompt', 'Column with the chat messages.'),
    response_key: field(text, 'responses', 'Column to write responses to.'),
    n_samples: field(positiveInteger, 5, 'Responses per prompt.'),
    batch_size: field(positiveInteger, 128, 'Prompts handed to the engine at a time.'),
    apply_chat_template_kwargs: field(freeForm, {}, 'Arguments of the chat template.'),
  }),
  model: generationModel,
  rollout: group('How responses are sampled.', {
    ...samplingFields({ topK: 50, topP: 0.7 }),
    prompt_length: field(positiveInteger, 1536, 'Longest prompt in tokens.'),
    response_length: field(positiveInteger, 512, 'Longest response in tokens.'),
    calculate_log_probs: field(flag, false, 'Write the log-probability of each token as well.'),
    log_prob_micro_batch_size,
    log_prob_micro_batch_size_per_gpu,
  }),
  actor: group("Actor block of verl's file; generation does not train.", {
    strategy: strategyField('fsdp'),
    ulysses_sequence_parallel_size: sequenceParallel(),
    entropy_from_logits_with_chunking: inert(flag, false, 'Compute entropy in chunks.', 'generation does not train'),
    entropy_checkpointing: inert(flag, false, 'Recompute entropy in backward.', 'generation does not train'),
    fsdp_config: fsdpGroup(),
    model: inert(freeForm, {}, 'Copy of the model block.', 'the model block is used'),
  }),
  ray_init: rayInit,
  custom: field(freeForm, {}, 'Free room for your own code.', { differs: 'not in verl' }),
  hydra: inert(freeForm, {}, "Hydra's own settings; searchpath is honoured.", 'nothing else is written'),
});

export const evaluationSchema = group('Offline scoring of responses: `verlet eval` (evaluation.yaml).', {
  data: group('Rows with responses.', {
    path: field(textOrList, MISSING, 'File that generation wrote.'),
    prompt_key: field(text, 'prompt', 'Column with the chat messages.'),
    response_key: field(text, 'responses', 'Column with the responses: a text or a list of texts.'),
    data_source_key: field(text, 'data_source', 'Column that picks the reward function; scores are averaged by it.'),
    reward_model_key: field(text, 'reward_model', 'Column with the ground truth.'),
    output_path: field(optionalText, null, 'File for scores row by row; null prints the averages only.', {
      differs: 'not in verl',
    }),
  }),
  custom_reward_function: customRewardFunction,
  ray_init: rayInit,
  custom: field(freeForm, {}, 'Free room for your own code.', { differs: 'not in verl' }),
  hydra: inert(freeForm, {}, "Hydra's own settings; searchpath is honoured.", 'nothing else is written'),
});
