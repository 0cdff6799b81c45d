/** Rows as training examples: prompts for reinforcement learning. */
export { type DataConfig, openDatasets, openLoader } from './from-config.js';
export { toMessages, withoutNulls } from './messages.js';
export { type DatasetReport, RlDataset, type RlDatasetOptions, type RlItem } from './rl-dataset.js';
export { type Truncation, truncateIds } from './truncate.js';
