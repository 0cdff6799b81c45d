/** Reward functions: loading them from TypeScript, JavaScript and Python files, and running them under supervision. */
export { importModule } from '../../config/import-module.js';
export { type CustomRewardFunction, loadRewardFunction } from './load.js';
export { loadPythonScorer, type PythonScorerOptions } from './python.js';
export { createScorer, defaultScorer, type Scorer, type ScorerParts, type ScorerSource } from './scorer.js';
export { createWorkerScorer, type WorkerScorerOptions } from './worker-scorer.js';
