/** What the updates of actor and critic share: counts over all ranks, and the step once the gradients are complete. */

import { AdamW, clipGradNorm, lrSchedule, type nn, type Tensor, warmupSteps, zeros } from '@verlet/torch';
import type { GlobalCounts } from '../algorithms/index.js';
import { type PpoConfig, UserError } from '../config/index.js';
import type { RecomputeChoice } from '../models/recompute.js';
import type { ActivationTape } from '../rollout/activation-tape.js';
import type { WorkerContext } from './context.js';
import type { MetricList } from './metric-list.js';
import type { RowSource } from './packing.js';

export interface UpdateOptions {
  temperature: number;
  recompute: RecomputeChoice;
  /** Compute a prompt that several rows of a micro-batch have once; so by default. */
  sharePrompts?: boolean;
  /** Where rows may be found that were sampled with the weights as they are now. */
  tape?: ActivationTape | null;
  /** Ranks that share this mini-batch. */
  dpSize: number;
  /** Sums a number over all ranks. */
  sumOverRanks: (value: number) => number;
  /** Adds up gradients over all ranks before the step. */
  reduceGradients?: (gradients: ReadonlyMap<string, Tensor>) => void;
}

/** How an update is shared with the other ranks of this one. */
export function acrossRanks(
  context: WorkerContext,
): Pick<UpdateOptions, 'dpSize' | 'sumOverRanks' | 'reduceGradients'> {
  const { worldSize } = context;
  return {
    dpSize: worldSize,
    sumOverRanks: (value) => context.sum(value),
    reduceGradients:
      worldSize === 1
        ? undefined
        : (gradients) => {
            context.allReduce(gradients.values());
            // The loss was scaled by dpSize over global counts: the mean over ranks is the gradient of the whole mini-batch.
            for (const gradient of gradients.values()) gradient.div_(worldSize);
          },
  };
}

export class NonFiniteError extends Error {
  override readonly name = 'NonFiniteError';
}

/** What a rank throws because another one failed; that one's own error is the one to read. */
export class PeerFailedError extends Error {
  override readonly name = 'PeerFailedError';
}

/**
 * Runs this rank's share of a mini-batch. Ranks meet only once their gradients are complete: one that fails before says so
 * here, so that the others neither wait for it until the collective's deadline nor take a step without it.
 */
export function togetherOrNotAtAll<T>(
  role: string,
  options: Pick<UpdateOptions, 'dpSize' | 'sumOverRanks'>,
  body: () => T,
): T {
  if (options.dpSize === 1) return body();
  let result: T;
  try {
    result = body();
  } catch (error) {
    try {
      options.sumOverRanks(1);
    } catch {
      // A rank that cannot reach its peers either still has its own error to tell.
    }
    throw error;
  }
  const failed = options.sumOverRanks(0);
  if (failed > 0)
    throw new PeerFailedError(
      `${failed} of ${options.dpSize} ranks could not compute their share of the ${role}'s update`,
    );
  return result;
}

export interface ScheduledOptimizer {
  optimizer: AdamW;
  /** Learning rate of the update that comes after so many finished ones. */
  rate(updates: number): number;
}

/** The keys of an `optim` group that are read. */
export type OptimizerSettings = Pick<
  PpoConfig['critic']['optim'],
  | 'optimizer'
  | 'lr'
  | 'betas'
  | 'eps'
  | 'weight_decay'
  | 'lr_warmup_steps'
  | 'lr_warmup_steps_ratio'
  | 'total_training_steps'
  | 'min_lr_ratio'
  | 'init_lr_ratio'
  | 'num_cycles'
  | 'stable_ratio'
  | 'lr_scheduler_type'
>;

/** The optimizer over what is trained, with its schedule, from the keys of an `optim` group. */
export function createOptimizer(model: nn.Module, optim: OptimizerSettings, runSteps: number): ScheduledOptimizer {
  const kind = optim.optimizer.toLowerCase();
  if (kind === 'sgd')
    throw new UserError('optim.optimizer=SGD is not there; AdamW and Adam (without weight decay) are', { exitCode: 2 });
  const factor = rateSchedule(optim, optim.total_training_steps > 0 ? optim.total_training_steps : runSteps);
  const trainable = [...model.namedParameters()].filter(([, parameter]) => parameter.trainable);
  const optimizer = new AdamW(trainable, {
    lr: optim.lr,
    betas: optim.betas as [number, number],
    eps: optim.eps,
    // Megatron's `adam` decays as AdamW does.
    weightDecay: optim.optimizer === 'Adam' ? 0 : optim.weight_decay,
  });
  return { optimizer, rate: (updates) => optim.lr * factor(updates) };
}

/** The factor on the learning rate of the update that comes after so many finished ones. */
export function rateSchedule(optim: OptimizerSettings, runSteps: number): (updates: number) => number {
  const totalSteps = Math.max(1, runSteps);
  const warmup = { totalSteps, warmupSteps: optim.lr_warmup_steps, warmupRatio: optim.lr_warmup_steps_ratio };
  const falling = { minLrRatio: optim.min_lr_ratio ?? 0, numCycles: optim.num_cycles };
  const steady = warmupSteps({ type: 'constant', ...warmup });
  const first = optim.init_lr_ratio ?? 0;
  const climbing = (after: (updates: number) => number) => (updates: number) =>
    updates < steady ? first + (1 - first) * (updates / steady) : after(updates);
  const type = optim.lr_scheduler_type;
  if (type !== 'wsd') return climbing(lrSchedule({ type, ...warmup, ...falling }));
  // Warm-up, stable, decay: the peak is held for `stable_ratio` of what follows warm-up, then a cosine falls to the minimum.
  const fallsFrom = steady + Math.floor((totalSteps - steady) * optim.stable_ratio);
  const fall = lrSchedule({ type: 'cosine', totalSteps: Math.max(1, totalSteps - fallsFrom), ...falling });
  return climbing((updates) => (updates < fallsFrom ? 1 : fall(updates - fallsFrom)));
}

/** Counts over the whole mini-batch on all ranks, so that the loss does not depend on how it is cut. */
export function globalCounts(
  source: RowSource,
  rows: readonly number[],
  options: UpdateOptions,
  lossScaleFactor: number | null = null,
): GlobalCounts {
  let tokens = 0;
  let sequences = 0;
  for (const row of rows) {
    let own = 0;
    for (let k = 0; k < source.responseWidth; k++) own += source.responseMask[row * source.responseWidth + k]!;
    tokens += own;
    if (own > 0) sequences++;
  }
  return {
    dpSize: options.dpSize,
    batchNumTokens: options.sumOverRanks(tokens),
    globalBatchSize: options.sumOverRanks(sequences),
    lossScaleFactor,
  };
}

/** Ranks add up the same list of gradients: a rank that scored no token has none for the head, and gives zeros. */
export function gradientsOf(model: nn.Module, isShared: boolean): Map<string, Tensor> {
  const gradients = new Map<string, Tensor>();
  for (const [name, parameter] of model.namedParameters()) {
    if (isShared && parameter.trainable && !parameter.gradient)
      parameter.accumulate(zeros(parameter.shape, { device: parameter.device }));
    if (parameter.gradient) gradients.set(name, parameter.gradient);
  }
  return gradients;
}

/** Reduces, clips and applies the gradients that the model holds; refuses what is not finite before any weight changes. */
export function takeStep(
  model: nn.Module,
  optimizer: AdamW,
  role: 'actor' | 'critic',
  gradClip: number,
  metrics: MetricList,
  options: UpdateOptions,
): void {
  const gradients = gradientsOf(model, options.reduceGradients !== undefined);
  options.reduceGradients?.(gradients);
  const { norm, finite } = clipGradNorm(gradients, gradClip);
  metrics.add({ [`${role}/grad_norm`]: norm });
  if (!finite) {
    model.clearGradients();
    throw new NonFiniteError(`the ${role}'s gradient is not finite (norm ${norm})`);
  }
  optimizer.step(gradients);
  model.clearGradients();
}
