/** Scores: pure functions from a finished sample to a number, picked by `data_source`. */
export { lastBoxed } from './boxed.js';
export { easyR1Dapo, easyR1Math, easyR1R1v } from './easyr1.js';
export { jsonFormat, regexFormat, tagFormat } from './format.js';
export { geo3k } from './geo3k.js';
export { extractGsm8k, type Gsm8kOptions, gsm8k } from './gsm8k.js';
export { cosineLengthReward, overlongPenalty, softOverlongPunishment } from './length.js';
export { math, normalizeMath } from './math.js';
export { type MathDapoOptions, mathDapo, normalizeFinalAnswer } from './math-dapo.js';
export { gradeAnswer, primeMath } from './prime-math.js';
export { codeDataSources, defaultComputeScore, knownDataSources, registerScore, scoreFor } from './registry.js';
export { repetitionPenalty } from './repetition.js';
export { matchScore, rlla, toolCallReward } from './rlla.js';
export {
  extractAnswer,
  normalizeAnswer,
  type SearchQaOptions,
  searchQaExactMatch,
  searchQaSubMatch,
} from './search-qa.js';
export { checkSequence, type SearchQaFormatOptions, searchQaFormat } from './search-qa-format.js';
