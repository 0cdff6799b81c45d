/** Advantages, losses, KL, rollout correction and balancing: pure functions of tensors and numbers. */
export * from './advantages/index.js';
export * from './aggregate.js';
export * from './balance/index.js';
export * from './distillation.js';
export * from './filter-groups.js';
export * from './kl.js';
export * from './logits.js';
export * from './masked.js';
export * from './policy-losses/index.js';
export * from './random.js';
export * from './resampling.js';
export * from './rollout-correction/index.js';
export * from './types.js';
export * from './value-loss.js';
