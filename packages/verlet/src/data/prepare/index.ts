/** Published data sets as training rows. A preparer is a function of one row; new ones are added to PREPARERS. */
export { boxedAnswer, hashAnswer } from './answer.js';
export { PREPARERS, type PreparedRow, type PrepareOptions, type Preparer, prepareRows } from './prepare.js';
