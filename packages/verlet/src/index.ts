/**
 * Reinforcement-learning post-training for language models and agents.
 *
 * @example
 * import { composeConfig, train } from 'verlet';
 * const { config } = composeConfig({ kind: 'ppo', files: ['run.yaml'] });
 * await train({ config, reward: ({ solution_str, ground_truth }) => Number(solution_str.includes(String(ground_truth))) });
 */
export * as agents from './agents/index.js';
export * as algorithms from './algorithms/index.js';
export * from './config/index.js';
export * as controller from './controller/index.js';
export * as data from './data/index.js';
export { openTable, writeParquet } from './data/index.js';
export * as models from './models/index.js';
export { type CausalLM, createCausalLM, loadCausalLM, saveCausalLM } from './models/index.js';
export { closedVocabulary, Tokenizer, trainBpe } from './models/tokenizer/index.js';
export * from './protocol/index.js';
export * as rewards from './rewards/index.js';
export { RolloutEngine } from './rollout/engine.js';
export type { Engine, Generation, GenerationOutput, GenerationRequest, SamplingParams } from './rollout/types.js';
export { distill } from './trainer/distill/index.js';
export { evaluate } from './trainer/evaluate/index.js';
export { exportModel } from './trainer/export/index.js';
export { generate } from './trainer/generate/index.js';
export { trainPreference } from './trainer/preference/index.js';
export { type RunReport, writeRunReport } from './trainer/report/index.js';
export { sft } from './trainer/sft/index.js';
export type { Metrics, Tracker } from './trainer/trackers/index.js';
export { type TrainOptions, type TrainResult, train } from './trainer/train.js';
export type { AgentContext, PromptMessage, TrainedAgent, TrainedRow } from './workers/agent-rollout.js';
export { type SupervisedExample, supervisedLoss, supervisedStep } from './workers/supervised.js';
