/** What trackers are given and what they may do with it. */
import type { ValidationExample } from '../validation.js';

export type Metrics = Readonly<Record<string, number>>;

/** A place for metrics. Calls come in order; none may block the run, so what is slow is queued. */
export interface Tracker {
  readonly name: string;
  /** The run begins (`step` 0) or goes on after `step`: what was kept of later steps will come again. */
  start?(step: number): void | Promise<void>;
  log(metrics: Metrics, step: number): void | Promise<void>;
  /** The first `trainer.log_val_generations` answers of a validation. */
  generations?(examples: readonly ValidationExample[], step: number): void | Promise<void>;
  /** Something a person should read now, such as a guard's warning. */
  notice?(text: string): void;
  finish?(outcome: 'finished' | 'interrupted' | 'failed'): void | Promise<void>;
}

/** The part of a configuration that trackers read; those of PPO and SFT both have it. */
export interface TrackedConfig {
  trainer: {
    logger: string | readonly string[];
    project_name: string;
    experiment_name: string;
    log_val_generations?: number;
    rollout_data_dir?: string | null;
  };
}
