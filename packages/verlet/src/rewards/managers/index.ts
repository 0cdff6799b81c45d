/** Managers: from finished samples to scores, each its own way. They share one interface and one handling of errors. */
export { BatchRewardManager } from './batch.js';
export { createRewardManager, type RewardManagerFactory, registerRewardManager } from './create.js';
export { type DapoOptions, DapoRewardManager, type OverlongBuffer } from './dapo.js';
export { type HybridOptions, HybridRewardManager, type Turn, type TurnReward, turnsOf } from './hybrid.js';
export { type LimitedOptions, LimitedRewardManager } from './limited.js';
export { type NaiveOptions, NaiveRewardManager } from './naive.js';
export { type ErrorPolicy, lastTokenPosition, readResult, rewardMetrics } from './outcome.js';
export { type PrimeOptions, PrimeRewardManager } from './prime.js';
export { type RemoteOptions, RemoteRewardManager } from './remote.js';
