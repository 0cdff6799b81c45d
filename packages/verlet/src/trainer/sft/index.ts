/** Learning from given examples: the loop that fine-tuning, preferences and reward models share, and fine-tuning itself. */
export { type FineTuneParts, fineTune, type RunOptions, type RunResult } from './fine-tune.js';
export type { Learner } from './learner.js';
export { type SftDatasetClass, sft } from './sft.js';
export { SftLearner } from './sft-learner.js';
