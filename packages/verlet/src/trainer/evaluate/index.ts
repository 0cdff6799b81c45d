/** Offline evaluation: rewards of given responses, and what they say about the model. */
export { type Estimate, estimate, interval, type JudgedSample, majorityAtK, passAtK } from './estimates.js';
export { type EvaluateOptions, type EvaluateResult, evaluate, type SourceReport } from './evaluate.js';
export { finalAnswer } from './final-answer.js';
export { describeEvaluation } from './report.js';
