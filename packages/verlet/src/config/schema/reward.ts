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
  optionalInteger,
  optionalNumber,
  optionalPositiveInteger,
  optionalText,
  positiveInteger,
  text,
} from '../field.js';
import { megatronGroup } from './megatron.js';
import { rewardModelModel, sequenceParallel, strategyField } from './model.js';
import { profilerGroup } from './parts.js';

export const REWARD_MANAGERS = ['naive', 'batch', 'prime', 'dapo', 'limited', 'remote', 'gdpo', 'hybrid'] as const;

const overlongBuffer = group('DAPO: a soft penalty near the length limit.', {
  enable: field(flag, false, 'Apply the penalty.'),
  len: field(z.int().min(0), 0, 'Tokens before the limit where the penalty begins.'),
  penalty_factor: field(nonNegative, 0, 'Penalty at the limit.'),
  log: field(flag, false, 'Report overlong_reward and overlong.'),
});

const sandboxFusion = group(
  'A SandboxFusion service that runs model-written code; without url the built-in sandbox does.',
  {
    url: field(optionalText, null, 'Address of the service.'),
    max_concurrent: field(positiveInteger, 64, 'Programs run side by side.'),
    memory_limit_mb: field(positiveInteger, 1024, 'Memory of one program.'),
  },
);

const OWN = { differs: 'not in verl' };

const judge = group(
  'A language model that grades responses by a rubric; without base_url there is none. With a reward function of your own beside it, both count.',
  {
    base_url: field(
      optionalText,
      null,
      'OpenAI-compatible endpoint with its version, such as http://127.0.0.1:8000/v1.',
      OWN,
    ),
    model: field(optionalText, null, 'Model to ask.', OWN),
    rubric: field(optionalText, null, 'What a good response is, in words.', OWN),
    rubric_path: field(optionalText, null, 'Text file that holds the rubric, instead of rubric.', OWN),
    mode: field(
      z.enum(['rubric', 'ranking']),
      'rubric',
      'Grade each response alone, or rank the responses to one prompt.',
      OWN,
    ),
    weight: field(number, 1, 'What the grade, from 0 to 1, is multiplied by.', OWN),
    show_reference: field(flag, false, 'Show the ground truth to the judge.', OWN),
    api_key_env: field(optionalText, null, 'Environment variable that holds the key.', OWN),
    temperature: field(nonNegative, 0, 'Sampling temperature of the judge.', OWN),
    max_tokens: field(positiveInteger, 1024, 'Longest answer of the judge, in tokens.', OWN),
    cache_path: field(optionalText, null, 'JSON-lines file that keeps grades between runs.', OWN),
    max_concurrent: field(positiveInteger, 8, 'Requests at once.', OWN),
    max_rpm: field(optionalNumber, null, 'Requests per minute.', OWN),
    max_tpm: field(optionalNumber, null, 'Tokens per minute.', OWN),
  },
);

const BY_TOKENS = 'passes are filled by tokens, up to forward_max_token_len_per_gpu';

export const rewardModel = group('How responses are scored: by functions, and optionally by a learned model.', {
  reward_manager: field(
    z.enum(REWARD_MANAGERS),
    'naive',
    'Who calls the reward function, and how: one by one, in a batch, in processes ...',
  ),
  reward_kwargs: group('Settings of the reward manager.', {
    overlong_buffer_cfg: overlongBuffer,
    max_resp_len: field(
      optionalPositiveInteger,
      null,
      'Response limit the buffer counts from; null is max_response_length.',
    ),
    url: field(optionalText, null, 'remote and swedev managers: the scoring service, by POST.', {
      differs: 'not in verl',
    }),
    batch_size: field(positiveInteger, 1, 'remote and swedev managers: samples per request.', {
      differs: 'not in verl',
    }),
    id_key: field(
      optionalText,
      null,
      'remote manager: key of extra_info that names the task at the service; null makes ids up.',
      { differs: 'not in verl' },
    ),
    strict: field(flag, false, 'Fail the step with the first reward that cannot be computed.', {
      differs: 'not in verl',
    }),
  }),
  reward_mode: field(
    z.enum(['mixed', 'turn', 'trajectory']),
    'mixed',
    'Which rewards count: those that tools, interactions and tasks give to turns, those of whole trajectories, or both.',
    { differs: 'not in verl' },
  ),
  channel_weights: field(
    freeForm,
    {},
    'Weight of a reward channel (score, tool/NAME, interaction/NAME, ...); 1 where none is given.',
    { differs: 'not in verl' },
  ),
  num_workers: field(
    positiveInteger,
    8,
    'Processes that run a Python reward file, threads of the prime manager and boxes of the code sandbox; at most one per core.',
  ),
  num_examine: inert(
    z.int().min(0),
    0,
    'Responses per data source printed with their score.',
    'the dashboard shows all; see trainer.rollout_data_dir',
  ),
  timeout: field(
    z.number().gt(0),
    300,
    'Seconds one reward call may take; then it counts as an error, not as a silent 0.',
    { differs: 'verl has it for some managers' },
  ),
  launch_reward_fn_async: inert(
    flag,
    false,
    'Score while log-probabilities are computed.',
    'trajectories are scored while others are still sampled',
  ),
  max_concurrent: field(optionalPositiveInteger, null, 'limited manager: calls at once.'),
  max_rpm: field(optionalNumber, null, 'limited manager: calls per minute.'),
  max_tpm: field(optionalNumber, null, 'limited manager: tokens per minute.'),
  estimated_tokens_per_request: field(positiveInteger, 2000, 'limited manager: tokens one call is taken for.'),
  sandbox_fusion: sandboxFusion,
  judge,
  structure_format_score: field(fraction, 0, 'Search-R1: score of a well-formed trajectory without the right answer.'),
  final_format_score: field(fraction, 0, 'Search-R1: score of an answer in the right tags only.'),
  retrieval_score: field(fraction, 0, 'Search-R1: score for having retrieved the answer.'),
  val_only: inert(flag, false, 'Search-R1: score in validation only.', 'both are scored'),
  enable: field(flag, false, 'Score with a model as well.'),
  model: rewardModelModel,
  micro_batch_size: inert(
    optionalPositiveInteger,
    null,
    'Trajectories per scoring pass over all devices (old form; prefer _per_gpu).',
    BY_TOKENS,
  ),
  micro_batch_size_per_gpu: inert(
    optionalPositiveInteger,
    null,
    'Trajectories per scoring pass on one device.',
    BY_TOKENS,
  ),
  max_length: inert(
    optionalPositiveInteger,
    null,
    'Longest text the reward model sees, in tokens.',
    'texts are not cut; one beyond what the model takes is an error',
  ),
  use_dynamic_bsz: inert(flag, '${critic.use_dynamic_bsz}', 'Fill scoring passes by tokens.', BY_TOKENS),
  forward_max_token_len_per_gpu: field(
    positiveInteger,
    '${critic.forward_max_token_len_per_gpu}',
    'Tokens per scoring pass on one device.',
  ),
  strategy: strategyField('fsdp'),
  ulysses_sequence_parallel_size: sequenceParallel(),
  enable_resource_pool: inert(flag, false, 'Own devices for the reward model.', 'it shares the devices of the run'),
  n_gpus_per_node: inert(
    optionalInteger,
    0,
    'Devices per node for the reward model.',
    'it shares the devices of the run',
  ),
  nnodes: inert(optionalInteger, 0, 'Nodes for the reward model.', 'it shares the devices of the run'),
  rollout: inert(
    freeForm,
    {},
    'Inference server of the reward model.',
    'it runs in this process; a server is asked by judge',
  ),
  use_reward_loop: inert(flag, true, 'Score each trajectory as soon as it ends.', 'always so'),
  nccl_timeout: inert(integer, 600, 'Seconds before a collective fails.', 'use trainer.worker_timeout'),
  load_weight: inert(flag, true, 'Read weights at start.', 'weights are always read'),
  megatron: megatronGroup(),
  profiler: profilerGroup(),
});

export const customRewardFunction = group('A reward function of your own.', {
  path: field(
    optionalText,
    null,
    'TypeScript or JavaScript module (or a Python file, run apart); null uses the function of the data source.',
  ),
  name: field(text, 'compute_score', 'Export that scores.'),
  reward_kwargs: field(freeForm, {}, 'Extra arguments handed to it.'),
});

export const retriever = group('Search-R1: the search service.', {
  url: field(text, 'http://127.0.0.1:8000/retrieve', 'Address that takes {queries, topk, return_scores}.'),
  topk: field(positiveInteger, 3, 'Documents per query.'),
  timeout: field(number.gt(0), 30, 'Seconds one search may take.', { differs: 'not in Search-R1' }),
});
