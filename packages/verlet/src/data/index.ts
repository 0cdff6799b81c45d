/** Data on its way in: files to tables, tables to prompts, prompts to batches. */
export * from './convert/index.js';
export * from './dataset/index.js';
export { type InspectOptions, inspectData } from './inspect.js';
export * from './loader/index.js';
export * from './prepare/index.js';
export { progressBar } from './progress.js';
export * from './table/index.js';
