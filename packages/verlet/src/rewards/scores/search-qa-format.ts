import type { RewardInput } from '../types.js';
import { containsTarget, extractAnswer, isExactMatch, targetsOf } from './search-qa.js';

export interface SearchQaFormatOptions {
  score?: number;
  /** For the valid sequence think, (search, information, think)*, answer. */
  structure_format_score?: number;
  /** For a wrong answer in an invalid sequence. */
  final_format_score?: number;
  /** Added for a valid sequence in which a search found a target. */
  retrieval_score?: number;
}

/** From state to state on a tag; a tag that is not listed is out of place. */
const transitions: Record<string, Record<string, string>> = {
  start: { '<think>': 'in_think' },
  in_think: { '</think>': 'after_think' },
  after_think: { '<search>': 'in_search', '<answer>': 'in_answer' },
  in_search: { '</search>': 'after_search' },
  after_search: { '<information>': 'in_information' },
  in_information: { '</information>': 'information' },
  information: { '<think>': 'in_think' },
  in_answer: { '</answer>': 'end' },
  end: {},
};

export interface SequenceCheck {
  readonly valid: boolean;
  readonly reason: string;
}

const invalid = (reason: string): SequenceCheck => ({ valid: false, reason });

/** Whether a response (without its prompt) is a well-formed search conversation, and what is wrong if not. */
export function checkSequence(response: string): SequenceCheck {
  for (const tag of ['think', 'search', 'information', 'answer']) {
    const opening = response.split(`<${tag}>`).length - 1;
    const closing = response.split(`</${tag}>`).length - 1;
    if (opening !== closing) return invalid(`Mismatch in ${tag} tags: ${opening} opening vs ${closing} closing tags`);
  }
  let state = 'start';
  for (const part of response.split(/(<\/?(?:think|search|information|answer)>)/)) {
    const content = part.trim();
    if (!content) continue;
    if (/^<\/?(?:think|search|information|answer)>$/.test(content)) {
      const next = transitions[state]![content];
      if (!next) return invalid(`Unexpected tag ${content} in state ${state}`);
      state = next;
    } else if (state === 'end') {
      return invalid(`Unexpected content in state ${state}`);
    } else if (!state.startsWith('in_')) {
      return invalid(`Unexpected content '${content}' between tags (state: ${state})`);
    }
  }
  return state === 'end'
    ? { valid: true, reason: 'Valid sequence format' }
    : invalid(`Incomplete sequence, ended in state ${state}`);
}

export function foundTarget(response: string, targets: readonly string[]): boolean {
  return [...response.matchAll(/<information>([\s\S]*?)<\/information>/g)].some((block) =>
    containsTarget(block[1]!, targets),
  );
}

/** Exact match graded together with the form of the search conversation. */
export function searchQaFormat(input: RewardInput, options: SearchQaFormatOptions = {}) {
  const { score = 1, structure_format_score = 0, final_format_score = 0, retrieval_score = 0 } = options;
  const targets = targetsOf(input.ground_truth);
  const { valid } = checkSequence(input.solution_str);
  const retrieved = valid && foundTarget(input.solution_str, targets);
  const answer = extractAnswer(input.solution_str);
  const acc = answer !== undefined && isExactMatch(answer, targets);
  const partial = valid
    ? structure_format_score + (retrieved ? retrieval_score : 0)
    : answer === undefined
      ? 0
      : final_format_score;
  return {
    score: acc ? (valid ? score : score - structure_format_score) : partial,
    acc,
    format_valid: valid,
    retrieved,
  };
}
