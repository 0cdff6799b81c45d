import type { RewardInput } from '../types.js';

/** Question answering with search: the answer is in the last `<answer>` of the response. */

export interface SearchQaOptions {
  score?: number;
  /** For an answer that is wrong. */
  format_score?: number;
}

/** SQuAD's normal form: lower case, no punctuation, no articles, single spaces. */
export function normalizeAnswer(text: string): string {
  return text
    .toLowerCase()
    .replace(/[!-/:-@[-`{-~]/g, '')
    .replace(/(?<![\p{L}\p{N}_])(?:a|an|the)(?![\p{L}\p{N}_])/gu, ' ')
    .split(/\s+/)
    .filter(Boolean)
    .join(' ');
}

/** Ground truths are `{target: string | string[]}`, a string or a list. */
export function targetsOf(groundTruth: unknown): string[] {
  const target =
    typeof groundTruth === 'object' && groundTruth !== null && 'target' in groundTruth
      ? groundTruth.target
      : groundTruth;
  const targets = Array.isArray(target) ? target : [target];
  if (targets.some((one) => typeof one !== 'string')) {
    throw new TypeError(
      `search QA: ground_truth.target must be a string or a list of strings, not ${JSON.stringify(groundTruth)}`,
    );
  }
  return targets as string[];
}

const answers = (text: string): string[] =>
  [...text.matchAll(/<answer>([\s\S]*?)<\/answer>/g)].map((match) => match[1]!.trim());

export const extractAnswer = (response: string): string | undefined => answers(response).at(-1);

/**
 * Search-R1's own rule, which reads prompt and response as one text and therefore wants two answers. A response without an
 * answer is then graded on the example inside the prompt. Only for reproducing its published numbers; nothing here uses it.
 */
export function extractAnswerFromTranscript(promptAndResponse: string): string | undefined {
  const found = answers(promptAndResponse);
  return found.length < 2 ? undefined : found.at(-1);
}

export function isExactMatch(prediction: string, targets: readonly string[]): boolean {
  const normal = normalizeAnswer(prediction);
  return targets.some((target) => normalizeAnswer(target) === normal);
}

/** A target that normalises to nothing ("The") is in every text and therefore says nothing. */
export function containsTarget(text: string, targets: readonly string[]): boolean {
  const normal = normalizeAnswer(text);
  return targets.some((target) => {
    const wanted = normalizeAnswer(target);
    return wanted.length > 0 && normal.includes(wanted);
  });
}

const count = (text: string, piece: string): number => text.split(piece).length - 1;

/** 1 for an exact match (a quarter of it for a response that sprays more than ten answer tags), 0 without an answer. */
export function searchQaExactMatch(input: RewardInput, options: SearchQaOptions = {}): number {
  const answer = extractAnswer(input.solution_str);
  if (answer === undefined) return 0;
  if (!isExactMatch(answer, targetsOf(input.ground_truth))) return options.format_score ?? 0;
  const sprays = count(input.solution_str, '<answer>') > 10 || count(input.solution_str, '</answer>') > 10;
  return (options.score ?? 1) / (sprays ? 4 : 1);
}

/** 1 when a target is contained in the answer. */
export function searchQaSubMatch(input: RewardInput, options: SearchQaOptions = {}): number {
  const answer = extractAnswer(input.solution_str);
  if (answer === undefined) return 0;
  return containsTarget(answer, targetsOf(input.ground_truth)) ? (options.score ?? 1) : (options.format_score ?? 0);
}
