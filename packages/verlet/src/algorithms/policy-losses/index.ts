/** Policy losses by name, one file per family; a user adds one with `registerPolicyLoss`. */
import './vanilla.js';
import './sequence.js';
import './score-function.js';
import './covariance.js';
import './bypass.js';

export * from './registry.js';
export { reinforceLoss } from './score-function.js';
export { vanillaLoss } from './vanilla.js';
