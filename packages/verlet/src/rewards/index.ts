/**
 * Rewards: what a finished sample is worth. `scores` are pure functions by data source, `functions` loads a user's own,
 * `judges` ask another model, `sandbox` runs what the model wrote, `managers` put them to work on batches.
 */
export { compare, isEquivalent, type Limits as EquivalenceLimits, type Verdict } from './equivalence/index.js';
export * from './functions/index.js';
export * from './judges/index.js';
export * from './managers/index.js';
export { RateLimiter, type RateLimits } from './rate-limiter.js';
export * from './sandbox/index.js';
export {
  type CodeScore,
  type CodeScoreOptions,
  closeSharedSandbox,
  configureSharedSandbox,
  extractCode,
  primeCode,
  sharedSandbox,
} from './scores/code.js';
export * from './scores/index.js';
export { describeTrial, inputFromRow, type TrialColumns } from './trial.js';
export * from './types.js';
