/** Advantage estimators by name, one file per family; a user adds one with `registerAdvantage` or `registerOutcome`. */
import './gae.js';
import './group-relative.js';
import './gdpo.js';
import './reinforce.js';
import './token-baseline.js';

export * from './groups.js';
export { type Outcome, type OutcomeEstimator, registerOutcome } from './outcome.js';
export * from './registry.js';
