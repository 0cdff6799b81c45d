/**
 * Generation: the in-process engine (continuous batching, paged cache, sampling), engines behind HTTP, and the
 * OpenAI-compatible server. Whoever wants tokens asks an `Engine` and does not see which one it is.
 */
export { type EngineOptions, type EngineStats, RequestError, RolloutEngine } from './engine.js';
export { HttpEngine, HttpEngineError, type HttpEngineOptions } from './http-engine.js';
export { type LoadEngineOptions, loadEngine } from './load-engine.js';
export {
  type CompleteSamplingParams,
  type SamplingLimits,
  SamplingParamsError,
  validateSampling,
} from './sampling-params.js';
export * from './server/index.js';
export type {
  Engine,
  FinishReason,
  Generation,
  GenerationOutput,
  GenerationRequest,
  SamplingParams,
  TokenEvent,
  TopLogProb,
} from './types.js';
