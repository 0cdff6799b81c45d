/** Advantages, losses, KL and balancing: pure functions of tensors and numbers. */
export * from './advantages.js';
export * from './aggregate.js';
export * from './balance.js';
export * from './kl.js';
export * from './masked.js';
export * from './policy-loss.js';
export * from './types.js';
export * from './value-loss.js';
