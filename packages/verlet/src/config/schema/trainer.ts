// biome-ignore-all lint/suspicious/noTemplateCurlyInString: interpolations of the configuration language
import { z } from 'zod';
import {
  field,
  flag,
  freeForm,
  group,
  inert,
  integer,
  nonNegative,
  number,
  optionalInteger,
  optionalPositiveInteger,
  optionalText,
  positiveInteger,
  text,
} from '../field.js';

export const LOGGERS = [
  'console',
  'file',
  'tensorboard',
  'mlflow',
  'wandb',
  'swanlab',
  'clearml',
  'trackio',
  'vemlp_wandb',
  'rl_insight',
] as const;

const loggerNames = z.enum(LOGGERS);

export const loggerField = () =>
  field(z.union([loggerNames, z.array(loggerNames)]), ['console'], 'Where metrics go: one name or a list.', {
    differs: 'verl adds wandb',
  });

export const deviceFields = () => ({
  device: field(
    z.enum(['auto', 'cuda', 'cpu', 'mps', 'npu']),
    'auto',
    'Where tensors live; auto takes a GPU when there is one.',
    { differs: 'verl has cuda' },
  ),
  nnodes: field(positiveInteger, 1, 'Machines.'),
  n_gpus_per_node: field(positiveInteger, 1, 'Ranks per machine, one per GPU (on CPU: processes).', {
    differs: 'verl has 8',
  }),
});

export const runFields = (project: string, experiment: string) => ({
  project_name: field(text, project, 'Project the run is filed under.', { differs: "verl's example name" }),
  experiment_name: field(text, experiment, 'Name of the run.', { differs: "verl's example name" }),
  logger: loggerField(),
  total_training_steps: field(optionalPositiveInteger, null, 'Stop after this many steps; null follows total_epochs.'),
  save_freq: field(integer, -1, 'Steps between checkpoints; -1 saves none on the way.'),
  test_freq: field(integer, -1, 'Steps between validations; -1 validates none on the way.'),
  default_local_dir: field(
    text,
    'checkpoints/${trainer.project_name}/${trainer.experiment_name}',
    'Folder of checkpoints.',
  ),
  default_hdfs_dir: inert(optionalText, null, 'HDFS copy of checkpoints.', 'there is no HDFS client'),
  resume_mode: field(
    z.enum(['auto', 'disable', 'resume_path']),
    'auto',
    'auto goes on from the newest checkpoint, disable starts anew, resume_path uses resume_from_path.',
  ),
  resume_from_path: field(optionalText, null, 'Folder global_step_N to go on from.'),
});

export const trainer = group('The run: length, devices, logs, checkpoints.', {
  ...runFields('verlet_examples', 'gsm8k'),
  total_epochs: field(positiveInteger, 30, 'Passes over the training rows.'),
  ...deviceFields(),
  launcher: field(
    z.enum(['auto', 'inline', 'process', 'ray']),
    'auto',
    'What starts ranks: this process, child processes, or Ray; auto is inline on one device.',
    { differs: 'not in verl' },
  ),
  worker_timeout: field(number.gt(0), 1800, 'Seconds a call to a rank may take before the run fails.', {
    differs: 'not in verl',
  }),
  critic_warmup: field(z.int().min(0), 0, 'Steps in which only the critic learns.'),
  balance_batch: field(flag, true, 'Give every rank the same amount of work.'),
  val_before_train: field(flag, true, 'Validate before the first step.'),
  val_only: field(flag, false, 'Validate and stop.'),
  log_val_generations: field(z.int().min(0), 0, 'Validation responses written to the loggers.'),
  rollout_data_dir: field(optionalText, null, 'Folder for all training trajectories as JSON lines.'),
  validation_data_dir: field(optionalText, null, 'Folder for all validation trajectories as JSON lines.'),
  max_actor_ckpt_to_keep: field(optionalInteger, null, 'Actor checkpoints to keep; null or 0 keeps all.'),
  max_critic_ckpt_to_keep: field(optionalInteger, null, 'Critic checkpoints to keep; null or 0 keeps all.'),
  del_local_ckpt_after_load: inert(
    flag,
    false,
    'Delete a checkpoint once it is loaded.',
    'the folder that is read is the only copy',
  ),
  esi_redundant_time: inert(
    nonNegative,
    0,
    'Seconds before a cloud instance expires at which a save is forced.',
    'SIGTERM saves and stops after the step',
  ),
  ray_wait_register_center_timeout: inert(
    positiveInteger,
    300,
    'Seconds to wait until all ranks have registered.',
    'use trainer.worker_timeout',
  ),
  use_legacy_worker_impl: inert(
    z.union([text, flag]),
    'auto',
    "Which of verl's workers.",
    'there is one implementation',
  ),
  use_v1: inert(flag, true, "Which of verl's trainers.", 'there is one implementation'),
  v1: inert(
    freeForm,
    { trainer_mode: 'sync' },
    "verl's asynchronous trainers.",
    'training is synchronous and on-policy',
  ),
  controller_nsight_options: inert(freeForm, {}, 'Options of Nsight for the controller.', 'use global_profiler'),
  worker_nsight_options: inert(freeForm, {}, 'Options of Nsight for workers.', 'use global_profiler'),
  npu_profile: inert(freeForm, {}, 'Ascend profiler.', 'there is no Ascend support'),
});

export const rayInit = group('Ray, when trainer.launcher is ray.', {
  num_cpus: field(optionalPositiveInteger, null, 'CPUs Ray may use; set it under SLURM.'),
  address: field(optionalText, null, 'Ray cluster to join; null starts or finds a local one.', {
    differs: 'an argument of ray.init',
  }),
  runtime_env: field(freeForm, {}, 'Runtime environment of remote ranks.'),
  timeline_json_file: field(optionalText, null, 'File for the timeline of the run.'),
});

export const globalProfiler = group('Profiling of chosen steps.', {
  tool: inert(
    z.enum(['torch', 'torch_memory', 'nsys', 'npu', 'precision_debugger']).nullable(),
    null,
    'Which profiler.',
    'there is one: global_profiler.steps are recorded as a Chrome trace, with NVTX ranges on CUDA',
  ),
  steps: field(z.array(integer).nullable(), null, 'Steps to profile.'),
  profile_continuous_steps: field(flag, false, 'Put neighbouring steps into one recording.'),
  save_path: field(text, 'outputs/profile', 'Folder of recordings.'),
  global_tool_config: inert(freeForm, {}, 'Options of the profilers.', 'they have no counterpart'),
  relocate_results: inert(flag, false, 'Move recordings at the end.', 'they are written in place'),
  finish_hook_cmd: inert(optionalText, null, 'Command to run at the end.', 'not supported'),
  finish_hook_all_ranks: inert(flag, false, 'Run it on all ranks.', 'not supported'),
  finish_hook_ranks: inert(z.array(integer), [], 'Run it on these ranks.', 'not supported'),
});
