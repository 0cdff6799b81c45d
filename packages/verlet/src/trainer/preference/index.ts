/** Learning from pairs of a better and a worse answer: DPO and its relatives, and reward models. */
export { DpoLearner } from './dpo-learner.js';
export { preferenceLoss, rankingLoss } from './losses.js';
export { type Answer, PairDataset, type PairItem } from './pair-dataset.js';
export { RewardModelLearner } from './reward-model-learner.js';
export { type PreferenceSettings, preferenceSettings } from './settings.js';
export { trainPreference } from './train-preference.js';
