/** Offline generation: engines from names, rows from files, responses to files. */
export { BENCHMARKS, type Benchmark, benchmarkOf, prepareBenchmarkRow } from './benchmarks.js';
export { type GenerateOptions, type GenerateResult, generate } from './generate.js';
export { type OpenEngineOptions, type OpenedEngine, openEngine } from './open-engine.js';
