/** Rows as training examples: prompts for reinforcement learning, masked sequences for fine-tuning. */
export {
  type DataConfig,
  openDatasets,
  openLoader,
  openSampler,
  type PromptDataset,
  type PromptDatasetClass,
  type SamplerClass,
} from './from-config.js';
export { toMessages, withoutNulls } from './messages.js';
export { type DatasetReport, RlDataset, type RlDatasetOptions, type RlItem } from './rl-dataset.js';
export { SftDataset, type SftDatasetOptions, type SftItem } from './sft-dataset.js';
export { type Truncation, truncateIds } from './truncate.js';
