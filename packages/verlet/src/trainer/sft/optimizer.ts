import type { nn } from '@verlet/torch';
import type { SftConfig } from '../../config/index.js';
import { createOptimizer as createScheduled, type ScheduledOptimizer } from '../../workers/optimizer-step.js';

/** The optimiser over what is trainable of a model, as the `optim` block of fine-tuning says. */
export function createOptimizer(model: nn.Module, config: SftConfig['optim'], totalSteps: number): ScheduledOptimizer {
  const settings = { ...config, lr_scheduler_type: config.lr_scheduler, init_lr_ratio: null, total_training_steps: -1 };
  return createScheduled(model, settings, totalSteps);
}

/** Sets the learning rate of the step that follows so many finished ones, and returns it. */
export function schedule({ optimizer, rate }: ScheduledOptimizer, progress: number): number {
  optimizer.lr = rate(progress);
  return optimizer.lr;
}

export type { ScheduledOptimizer };
