/** Learning-rate schedules: the factor on the base rate as a pure function of the step, so that resuming needs no state. */

export interface LrScheduleOptions {
  type: 'constant' | 'linear' | 'cosine';
  /** Steps of the whole run; linear and cosine end there. */
  totalSteps?: number;
  /** Steps that climb from 0 to the full rate. A negative number asks for `warmupRatio`, as in verl. */
  warmupSteps?: number;
  /** Warm-up as a share of `totalSteps`. */
  warmupRatio?: number;
  /** Where linear and cosine end, as a share of the base rate. */
  minLrRatio?: number;
  /** Cosine waves within the run; 0.5 goes down once. */
  numCycles?: number;
}

/** The number of warm-up steps that the options ask for. */
export function warmupSteps(options: LrScheduleOptions): number {
  if (options.warmupSteps !== undefined && options.warmupSteps >= 0) return options.warmupSteps;
  const ratio = options.warmupRatio ?? 0;
  if (!(ratio >= 0 && ratio <= 1)) throw new RangeError(`warmupRatio must lie between 0 and 1, got ${ratio}`);
  if (ratio > 0 && options.totalSteps === undefined) throw new RangeError('warmupRatio needs totalSteps');
  return Math.floor(ratio * (options.totalSteps ?? 0));
}

/**
 * The factor for step 0, 1, 2 ...: that of the update that comes after so many finished ones.
 *
 * @example
 * const factor = lrSchedule({ type: 'cosine', totalSteps: 1000, warmupRatio: 0.05, minLrRatio: 0.1 });
 * optimizer.lr = 1e-6 * factor(step);
 */
export function lrSchedule(options: LrScheduleOptions): (step: number) => number {
  const { type, totalSteps, minLrRatio = 0, numCycles = 0.5 } = options;
  const warmup = warmupSteps(options);
  if (!(minLrRatio >= 0 && minLrRatio <= 1))
    throw new RangeError(`minLrRatio must lie between 0 and 1, got ${minLrRatio}`);
  if (type === 'constant') return (step) => (step < warmup ? step / Math.max(1, warmup) : 1);
  if (type !== 'linear' && type !== 'cosine')
    throw new RangeError(`unknown schedule '${type as string}'; known: constant, linear, cosine`);
  if (totalSteps === undefined || !(totalSteps > 0))
    throw new RangeError(`a ${type} schedule needs totalSteps, got ${totalSteps}`);

  const progress = (step: number) => Math.min(1, (step - warmup) / Math.max(1, totalSteps - warmup));
  const climb = (step: number) => step / Math.max(1, warmup);
  if (type === 'linear') return (step) => (step < warmup ? climb(step) : 1 - (1 - minLrRatio) * progress(step));
  return (step) => {
    if (step < warmup) return climb(step);
    const wave = Math.cos(Math.PI * numCycles * 2 * progress(step));
    return Math.max(minLrRatio, wave * (1 - minLrRatio) * 0.5 + (1 + minLrRatio) * 0.5);
  };
}
