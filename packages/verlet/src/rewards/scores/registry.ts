import { RewardError, type RewardInput, type RewardResult } from '../types.js';
import { easyR1Dapo, easyR1Math, easyR1R1v } from './easyr1.js';
import { jsonFormat, regexFormat, tagFormat } from './format.js';
import { geo3k } from './geo3k.js';
import { gsm8k } from './gsm8k.js';
import { math } from './math.js';
import { mathDapo } from './math-dapo.js';
import { primeMath } from './prime-math.js';
import { repetitionPenalty } from './repetition.js';
import { rlla } from './rlla.js';
import { searchQaExactMatch, searchQaSubMatch } from './search-qa.js';
import { searchQaFormat } from './search-qa-format.js';

/** Grades the text of a sample; needs nobody's help for it. */
type Score = (input: RewardInput, options: Record<string, unknown>) => RewardResult | Promise<RewardResult>;

/** Scores by `data_source`. A name that ends in `*` stands for all names that begin with what is before it. */
const scores = new Map<string, Score>();

/** Adds a score (or replaces one) for one or more data sources. */
export function registerScore<Options extends object>(
  dataSources: string | readonly string[],
  score: (input: RewardInput, options: Options) => RewardResult | Promise<RewardResult>,
): void {
  for (const source of typeof dataSources === 'string' ? [dataSources] : dataSources) {
    scores.set(source, score as unknown as Score);
  }
}

export const knownDataSources = (): string[] => [...scores.keys()].sort();

export function scoreFor(dataSource: string): Score {
  const exact = scores.get(dataSource);
  if (exact) return exact;
  for (const [name, score] of scores) {
    if (name.endsWith('*') && dataSource.startsWith(name.slice(0, -1))) return score;
  }
  throw new RewardError(
    `no built-in score for data_source ${JSON.stringify(dataSource)}. Known: ${knownDataSources().join(', ')}. ` +
      'Set custom_reward_function.path to a file with your own compute_score, or call registerScore.',
  );
}

/** verl's default_compute_score: picks the score by the row's data source. */
export const defaultComputeScore: Score = (input, options) => scoreFor(input.data_source)(input, options);

registerScore('openai/gsm8k', gsm8k);
registerScore(['lighteval/MATH', 'DigitalLearningGmbH/MATH-lighteval', 'HuggingFaceH4/MATH-500'], math);
registerScore(['math_dapo', 'math', 'math_dapo_reasoning', 'aime*'], mathDapo);
registerScore(
  'aops_forum synthetic_math amc_aime synthetic_amc cn_k12 olympiads'.split(' ').map((name) => `numina_${name}`),
  primeMath,
);
registerScore('hiyouga/geometry3k', geo3k);
/** Scored by running programs; the sandbox is loaded when the first of them comes. */
export const codeDataSources: readonly string[] = ['codecontests', 'apps', 'codeforces', 'taco'];
registerScore(codeDataSources, async (input, options: object) => (await import('./code.js')).primeCode(input, options));

registerScore(
  'nq triviaqa popqa hotpotqa 2wikimultihopqa musique bamboogle'.split(' ').map((name) => `searchR1_${name}`),
  searchQaExactMatch,
);
registerScore('search_qa/subem', searchQaSubMatch);
registerScore('search_qa/format', searchQaFormat);
registerScore('rlla', rlla);
registerScore('easyr1/math', easyR1Math);
registerScore('easyr1/r1v', easyR1R1v);
registerScore('easyr1/dapo', easyR1Dapo);
registerScore('format/tags', tagFormat);
registerScore('format/regex', regexFormat);
registerScore('format/json', jsonFormat);
registerScore('penalty/repetition', (input, options: { ngram?: number; max_penalty?: number }) =>
  repetitionPenalty(input.response_ids ?? input.solution_str, options.ngram, options.max_penalty),
);
