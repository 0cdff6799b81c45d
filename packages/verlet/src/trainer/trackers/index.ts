/** Where metrics go: console, JSON lines, TensorBoard, MLflow, Weights & Biases; and where trajectories are dumped. */
export { ConsoleTracker } from './console.js';
export { createTrackers, type TrackerOptions } from './create.js';
export { JsonlTracker, type MetricRecord, parseRecord, readRecords } from './jsonl.js';
export { type Decode, dumpRollouts, type RolloutRow, rolloutRows } from './rollout-dump.js';
export { condense, sparkline } from './sparkline.js';
export { TensorboardTracker } from './tensorboard/index.js';
export { TrackerSet } from './tracker-set.js';
export type { Metrics, TrackedConfig, Tracker } from './types.js';
export { type KeptExamples, readExamples } from './validation-examples.js';
export { clock, count, klOf, short, validationScores } from './words.js';
