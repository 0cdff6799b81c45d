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
  optionalInteger,
  optionalPositiveInteger,
  optionalText,
  positiveInteger,
  text,
} from '../field.js';
import { logProbFields } from './actor.js';
import { inertCodeReference, NOT_SPLIT, ONE_ENGINE, profilerGroup } from './parts.js';

export const ROLLOUT_NAMES = [
  'verlet',
  'http',
  'vllm',
  'vllm_spmd',
  'sglang',
  'sglang_async',
  'trtllm',
  'hf',
  'naive',
] as const;

const NOT_IN_VERL = { differs: 'not in verl' };
const PARTS = { vllm: {}, sglang: {}, trtllm: {} };

/** What every block that samples has: `generation.yaml` as well as `ppo_trainer.yaml`. */
export const samplingFields = (defaults: { topK: number; topP: number }) => ({
  name: field(
    z.enum(ROLLOUT_NAMES),
    'verlet',
    "Engine that samples: verlet is the built-in one, http the server at server.base_url; verl's names mean the former without and the latter with that address.",
    {
      differs: 'verl has no default',
    },
  ),
  mode: inert(
    z.enum(['sync', 'async']),
    'async',
    'Whether generation is a blocking call or a server.',
    'the engine serves both',
  ),
  temperature: field(nonNegative, 1, 'Sampling temperature; 0 is greedy.'),
  top_k: field(integer, defaults.topK, 'Sample among the k likeliest tokens; -1 or 0 keeps all.'),
  top_p: field(z.number().gt(0).max(1), defaults.topP, 'Sample among the likeliest tokens of this total probability.'),
  min_p: field(fraction, 0, 'Drop tokens less likely than this share of the likeliest.'),
  repetition_penalty: field(z.number().gt(0), 1, 'Penalty on tokens that occurred already; 1 is none.'),
  do_sample: field(flag, true, 'Sample; false is greedy whatever the temperature.'),
  n: field(positiveInteger, 1, 'Responses per prompt; the group size of GRPO, RLOO and their kin.'),
  seed: field(integer, 42, 'Seed of sampling; noise depends on (seed, sample, position) alone.'),
  ignore_eos: field(flag, false, 'Go on to the full length past end tokens.'),
  dtype: field(
    z.enum(['bfloat16', 'float16', 'float32', 'auto']),
    'bfloat16',
    'Precision of generation; it is that of the shared model.',
  ),
  gpu_memory_utilization: field(z.number().gt(0).max(1), 0.5, 'Share of device memory that the KV cache may take.'),
  enforce_eager: inert(flag, false, 'Do not capture decode steps as CUDA graphs.', 'decode steps are always captured'),
  cudagraph_capture_sizes: inert(
    z.array(positiveInteger).nullable(),
    null,
    'Batch sizes to capture as graphs; null picks them.',
    'sizes up to max_num_seqs are captured when they are first needed',
  ),
  free_cache_engine: field(flag, true, 'Free the KV cache while training.'),
  keep_activations_gb: field(
    nonNegative,
    2,
    'On the CPU, memory for what the layers of a small model compute while sampling: the update then needs no forward pass of its own. For each rank; all together take at most an eighth of the machine. 0 keeps nothing.',
    NOT_IN_VERL,
  ),
  max_num_batched_tokens: field(positiveInteger, 8192, 'Tokens prefilled in one engine step.'),
  max_model_len: field(
    optionalPositiveInteger,
    null,
    'Longest prompt and response together; null is the sum of both limits.',
  ),
  max_num_seqs: field(positiveInteger, 256, 'Sequences decoded together.'),
  enable_chunked_prefill: inert(flag, true, 'Prefill long prompts in pieces between decode steps.', 'always so'),
  enable_prefix_caching: field(flag, true, 'Reuse the KV cache of shared prefixes.'),
  load_format: inert(text, 'auto', 'How an inference engine first gets weights.', ONE_ENGINE),
  layered_summon: inert(flag, false, 'Gather weights layer by layer for the inference engine.', ONE_ENGINE),
  tensor_model_parallel_size: inert(positiveInteger, 1, 'Devices that share one copy of the model.', NOT_SPLIT),
  pipeline_model_parallel_size: inert(positiveInteger, 1, 'Pipeline stages of one copy.', NOT_SPLIT),
  data_parallel_size: inert(positiveInteger, 1, 'Copies inside one server.', 'there is one copy per rank'),
  expert_parallel_size: inert(
    positiveInteger,
    1,
    'Devices that share the experts.',
    'there are no mixture-of-experts models',
  ),
  disable_log_stats: inert(
    flag,
    true,
    "Silence the inference engine's statistics.",
    'statistics are metrics of the step',
  ),
  use_fire_sampling: inert(flag, false, 'FIRE: hot first token.', 'not supported'),
  quantization: inert(z.union([text, flag]).nullable(), null, 'Quantised rollout weights.', ONE_ENGINE),
  quantization_config_file: inert(optionalText, null, 'Settings of quantised rollout.', ONE_ENGINE),
  server: group(
    'An OpenAI-compatible server (vLLM, SGLang, `verlet serve`) that samples in place of the built-in engine.',
    {
      base_url: field(
        optionalText,
        null,
        'Address, such as http://host:8000/v1; null samples in this process.',
        NOT_IN_VERL,
      ),
      api_key: field(optionalText, null, 'Bearer token; write ${oc.env:NAME} to keep it out of files.', NOT_IN_VERL),
      model: field(optionalText, null, 'Model name sent to the server; null takes the first it lists.', NOT_IN_VERL),
      timeout: field(z.number().gt(0), 600, 'Seconds one generation may take, retries included.', NOT_IN_VERL),
      max_concurrency: field(positiveInteger, 256, 'Requests in flight at a time.', NOT_IN_VERL),
    },
  ),
  engine_kwargs: inert(freeForm, PARTS, 'Options of vLLM, SGLang and TensorRT-LLM.', 'none of them is used'),
});

const valKwargs = group('Sampling in validation.', {
  temperature: field(nonNegative, 0, 'Sampling temperature in validation.'),
  top_k: field(integer, -1, 'Top-k in validation; -1 keeps all.'),
  top_p: field(z.number().gt(0).max(1), 1, 'Top-p in validation.'),
  n: field(positiveInteger, 1, 'Responses per validation prompt; mean@n, best@n and maj@n are reported.'),
  do_sample: field(flag, false, 'Sample in validation; false is greedy.'),
});

const multiTurn = group('Conversations of several turns with tools or a simulated user.', {
  enable: inert(
    flag,
    false,
    'Let agent loops run several turns.',
    'the agent loop of a row decides: its agent_name, or rollout.agent.default_agent_loop',
  ),
  max_assistant_turns: field(optionalPositiveInteger, null, 'Most turns of the model; null is no limit but length.'),
  max_user_turns: field(
    optionalPositiveInteger,
    null,
    'Most turns of the other side, tool results included; null is no limit but length.',
  ),
  max_parallel_calls: field(positiveInteger, 1, 'Tool calls carried out per turn; further ones are ignored.'),
  max_tool_calls: field(
    optionalPositiveInteger,
    null,
    'Most tool calls of one trajectory; null is no limit but length.',
    NOT_IN_VERL,
  ),
  tool_timeout: field(
    z.number().gt(0),
    30,
    'Seconds one tool call, or one answer of an interaction or task, may take; the model is told when it took longer.',
    NOT_IN_VERL,
  ),
  tool_config_path: field(optionalText, null, 'File that lists the tools.'),
  function_tool_path: field(optionalText, null, 'Module whose exported functions become tools.'),
  interaction_config_path: field(optionalText, null, 'File that lists the interactions (simulated users).'),
  max_tool_response_length: field(positiveInteger, 256, 'Longest tool result in characters.'),
  tool_response_truncate_side: field(
    z.enum(['left', 'middle', 'right']),
    'middle',
    'What a long result loses: left keeps the tail, right the head, middle both ends.',
  ),
  format: field(text, 'hermes', 'Tool-call format of the model: hermes, qwen3_coder, gpt-oss, glm, ...'),
  tokenization_sanity_check_mode: field(
    z.enum(['strict', 'ignore_strippable', 'disable']),
    'strict',
    'Compare kept tokens with the template of the whole conversation.',
  ),
  use_inference_chat_template: inert(
    flag,
    false,
    'Render history with the inference template.',
    'history is kept as tokens',
  ),
  num_repeat_rollouts: inert(optionalInteger, null, 'Repeat whole conversations.', 'use rollout.n'),
});

const agent = group('Who runs trajectories.', {
  num_workers: inert(
    positiveInteger,
    8,
    'Trajectory groups run side by side in each process.',
    'all trajectories run side by side, up to max_concurrent_trajectories',
  ),
  default_agent_loop: field(text, 'single_turn_agent', 'Loop for rows without agent_name.'),
  agent_loop_config_path: field(optionalText, null, 'File that registers agent loops of your own.'),
  trajectory_timeout: field(
    z.number().gt(0),
    600,
    'Seconds one trajectory may take; what it has by then is kept, with timeout as its end reason.',
    NOT_IN_VERL,
  ),
  max_concurrent_trajectories: field(positiveInteger, 1024, 'Trajectories under way at a time.', NOT_IN_VERL),
  program: group('A program to train as it is, run once per sample instead of an agent loop.', {
    path: field(
      optionalText,
      null,
      'TypeScript or JavaScript module of a function (row, { model, baseURL, apiKey, signal }) that returns the reward.',
      NOT_IN_VERL,
    ),
    name: field(optionalText, null, 'Export to use; null takes the default export.', NOT_IN_VERL),
    sampling: field(
      z.enum(['rollout', 'program']),
      'rollout',
      "Whose temperature, top_p, top_k, min_p and penalties count where the program sets its own: the rollout's, so that what is trained was sampled from the policy, or the program's.",
      NOT_IN_VERL,
    ),
  }),
  custom_async_server: inertCodeReference('Inference server of your own', 'use rollout.server for a server'),
});

const OWN_TRACES = 'trainer.rollout_data_dir keeps trajectories, ray_init.timeline_json_file what happened when';

const trace = group('Recording of trajectories for a tracing service.', {
  backend: inert(
    z.enum(['weave', 'mlflow', 'file']).nullable(),
    null,
    'Where traces go; null records none.',
    OWN_TRACES,
  ),
  token2text: inert(flag, false, 'Add decoded text to traces.', OWN_TRACES),
  max_samples_per_step_per_worker: inert(
    optionalPositiveInteger,
    null,
    'Most trajectories traced per step; null is all.',
    OWN_TRACES,
  ),
  project_name: inert(text, '${trainer.project_name}', 'Project in the tracing service.', OWN_TRACES),
  experiment_name: inert(text, '${trainer.experiment_name}', 'Run in the tracing service.', OWN_TRACES),
});

const checkpointEngine = group('How weights reach ranks that only sample.', {
  backend: inert(
    text,
    'naive',
    'naive hands over the weights of this process; others are for remote ranks.',
    'weights are shared or go as files',
  ),
  update_weights_bucket_megabytes: inert(
    positiveInteger,
    2048,
    'Size of one transfer.',
    'weights are shared or go as files',
  ),
  engine_kwargs: inert(freeForm, {}, 'Options of NCCL, NIXL and other transports.', 'not used'),
  custom_backend_module: inert(optionalText, null, 'Python module of a transport.', 'no Python code is loaded'),
});

export const rollout = group('How responses are sampled in training.', {
  ...samplingFields({ topK: -1, topP: 1 }),
  dtype: inert(
    z.enum(['bfloat16', 'float16', 'float32', 'auto']),
    'bfloat16',
    'Precision of generation.',
    'sampler and trainer share one model, bfloat16 on GPUs and float32 on CPUs',
  ),
  prompt_length: field(positiveInteger, '${data.max_prompt_length}', 'Longest prompt in tokens.'),
  response_length: field(
    positiveInteger,
    '${data.max_response_length}',
    'Longest response in tokens, tool results included.',
  ),
  calculate_log_probs: inert(
    flag,
    true,
    'Keep the log-probability of each sampled token and report how far training differs.',
    'always so',
  ),
  logprobs_mode: inert(
    text,
    'processed_logprobs',
    'Which log-probabilities vLLM returns.',
    'they are those of the sampling temperature',
  ),
  ...logProbFields(),
  val_kwargs: valKwargs,
  multi_turn: multiTurn,
  agent,
  trace,
  checkpoint_engine: checkpointEngine,
  nnodes: inert(z.int().min(0), 0, 'Nodes that only sample; 0 samples where it trains.', ONE_ENGINE),
  n_gpus_per_node: inert(z.int().min(0), '${trainer.n_gpus_per_node}', 'Devices per such node.', ONE_ENGINE),
  over_sample_rate: inert(
    nonNegative,
    0,
    'Start more trajectories than needed and drop the slowest.',
    'every started trajectory counts',
  ),
  multi_stage_wake_up: inert(flag, false, 'Wake weights and cache apart.', ONE_ENGINE),
  scheduling_policy: inert(text, 'fcfs', 'Order of requests.', 'first come, first served'),
  full_determinism: inert(flag, false, 'Deterministic rollout.', 'sampling does not depend on the batch'),
  skip_tokenizer_init: inert(flag, true, 'Server without tokenizer.', 'tokens go in and come out'),
  skip_rollout: inert(flag, false, 'Reuse dumped rollouts.', 'use skip.rollout'),
  skip_dump_dir: inert(text, '/tmp/rollout_dump', 'Folder of dumped rollouts.', 'use skip.rollout'),
  enable_rollout_routing_replay: inert(flag, false, 'Router replay.', 'there are no mixture-of-experts models'),
  moe_load_balance_metrics_interval: inert(
    integer,
    0,
    'Expert balance metrics.',
    'there are no mixture-of-experts models',
  ),
  prometheus: inert(
    freeForm,
    { enable: false },
    'Prometheus exporter of the inference server.',
    'the server has its own /metrics',
  ),
  mtp: inert(freeForm.nullable(), null, 'Multi-token prediction.', 'not supported'),
  qat: inert(freeForm.nullable(), null, 'Quantised rollout.', 'not supported'),
  disaggregation: inert(freeForm, { enabled: false }, 'Prefill and decode on different servers.', ONE_ENGINE),
  profiler: profilerGroup(),
});
