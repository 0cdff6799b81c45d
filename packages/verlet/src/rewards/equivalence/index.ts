/**
 * Mathematical equivalence of written answers: clean the conventions, parse LaTeX, compare exactly.
 * Nothing here trusts its input: every comparison runs under a budget of steps and time.
 */
export { Budget, defaultLimits, type Limits, Undecided } from './budget.js';
export { compare, isEquivalent } from './compare.js';
export { compareExpressions, type Evidence, type Verdict } from './sampling.js';
