/** Equal work for ranks and micro-batches. */
export * from './balance-batch.js';
export * from './karmarkar-karp.js';
export * from './micro-batches.js';
export * from './workload.js';
