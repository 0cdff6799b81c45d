/**
 * Configuration: verl's key tree as one schema per command (`schema/`), composed Hydra-style from defaults, files and
 * the command line (`compose.ts`), with foreign names translated (`aliases/`) and sizes checked (`checks.ts`).
 */
export { describeSource, type Source } from './assignment.js';
export {
  type BatchPlan,
  batchPlan,
  batchProblems,
  type PassPlan,
  renderBatchPlan,
  type UpdatePlan,
  usesCritic,
  usesReference,
  worldSizeOf,
} from './batch-plan.js';
export {
  type Composed,
  type ComposeOptions,
  type ConfigLayer,
  composeConfig,
  type DeepPartial,
  definePpoConfig,
  defineSftConfig,
} from './compose.js';
export { ConfigError, type ConfigProblem, UserError } from './errors.js';
export { MISSING } from './field.js';
export { importModule } from './import-module.js';
export type { Provenance } from './merge.js';
export type { Renaming } from './notices.js';
export { looksLikeOverride, type Override, parseOverride } from './override.js';
export { expandHome } from './paths.js';
export { renderConfig, renderConfigJson } from './render.js';
export * from './schema/index.js';
export { parseValue } from './value.js';
