import { AdamW, lrSchedule, type nn, warmupSteps } from '@verlet/torch';
import { type SftConfig, UserError } from '../../config/index.js';

export interface ScheduledOptimizer {
  optimizer: AdamW;
  /** Sets the learning rate for the step that follows so many finished ones, and returns it. */
  schedule(progress: number): number;
}

/** The optimiser over what is trainable of a model, as the `optim` block says. */
export function createOptimizer(model: nn.Module, config: SftConfig['optim'], totalSteps: number): ScheduledOptimizer {
  if (config.optimizer === 'SGD')
    throw new UserError('optim.optimizer=SGD is not there; AdamW and Adam (without weight decay) are', { exitCode: 2 });
  const trainable = [...model.namedParameters()].filter(([, parameter]) => parameter.trainable);
  const optimizer = new AdamW(trainable, {
    lr: config.lr,
    betas: config.betas as [number, number],
    eps: config.eps,
    weightDecay: config.optimizer === 'Adam' ? 0 : config.weight_decay,
  });
  const factor = scheduleOf(config, Math.max(1, totalSteps));
  return {
    optimizer,
    schedule(progress) {
      optimizer.lr = config.lr * factor(progress);
      return optimizer.lr;
    },
  };
}

function scheduleOf(config: SftConfig['optim'], totalSteps: number): (progress: number) => number {
  const warmup = { warmupSteps: config.lr_warmup_steps, warmupRatio: config.lr_warmup_steps_ratio, totalSteps };
  const falling = { minLrRatio: config.min_lr_ratio, numCycles: config.num_cycles };
  if (config.lr_scheduler !== 'wsd') return lrSchedule({ type: config.lr_scheduler, ...warmup, ...falling });
  // Warm-up, stable, decay: the peak is held for `stable_ratio` of what follows warm-up, then a cosine falls to the minimum.
  const rising = lrSchedule({ type: 'constant', ...warmup });
  const steady = warmupSteps(warmup as never);
  const fallsFrom = steady + Math.floor((totalSteps - steady) * config.stable_ratio);
  const fall = lrSchedule({ type: 'cosine', totalSteps: Math.max(1, totalSteps - fallsFrom), ...falling });
  return (progress) => (progress < fallsFrom ? rising(progress) : fall(progress - fallsFrom));
}
