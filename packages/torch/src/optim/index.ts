/** Optimizers: fused AdamW with fp32 master weights, gradient clipping, learning-rate schedules. */
export { AdamW, type AdamWOptions, type AdamWState, type OptimizerStateDict } from './adamw.js';
export { type ClipResult, clipGradNorm, gradNorm } from './clip.js';
export { type LrScheduleOptions, lrSchedule, warmupSteps } from './schedule.js';
