import { defaultComputeScore } from '../scores/index.js';
import {
  type BatchRewardFunction,
  type RewardContext,
  RewardError,
  type RewardFunction,
  type RewardInput,
  type RewardResult,
  withoutPolicy,
} from '../types.js';

/** Where a scorer can be loaded from again, in a worker thread for instance. */
export type ScorerSource = { readonly path: string; readonly name?: string } | 'default';

/** A reward function with its arguments bound, and whatever has to be closed after use. */
export interface Scorer {
  readonly type: 'sequential' | 'batch';
  readonly source?: ScorerSource;
  /** What the reward wants to read beyond the text: `log_probs`, `entropy`, `ref_log_prob`. */
  readonly needs: readonly string[];
  readonly options: Record<string, unknown>;
  scoreOne(input: RewardInput): Promise<RewardResult>;
  scoreMany(inputs: readonly RewardInput[]): Promise<readonly RewardResult[]>;
  close(): Promise<void>;
}

export type ScorerParts = (
  | { type: 'sequential'; compute: RewardFunction }
  | { type: 'batch'; compute: BatchRewardFunction }
) & {
  options?: Record<string, unknown>;
  source?: ScorerSource;
  needs?: readonly string[];
  context?: RewardContext;
  close?: () => Promise<void>;
};

/** EasyR1's field names, readable on every input. */
function withAliases(input: RewardInput): RewardInput {
  if (!('response' in input))
    Object.defineProperty(input, 'response', { get: () => input.solution_str, configurable: true });
  if (!('response_length' in input)) {
    Object.defineProperty(input, 'response_length', { get: () => input.response_ids?.length ?? 0, configurable: true });
  }
  return input;
}

export function createScorer(parts: ScorerParts): Scorer {
  const { type, compute, options = {}, source, needs = [], context = withoutPolicy, close } = parts;
  const one = compute as RewardFunction;
  const many = compute as BatchRewardFunction;
  const scoreMany = async (inputs: readonly RewardInput[]): Promise<readonly RewardResult[]> => {
    if (type === 'sequential') return Promise.all(inputs.map((input) => one(withAliases(input), options, context)));
    const results = await many(inputs.map(withAliases), options, context);
    if (!Array.isArray(results) || results.length !== inputs.length) {
      const got = Array.isArray(results) ? `${results.length} results` : typeof results;
      throw new RewardError(
        `a batch reward function must return one result per sample: ${inputs.length} samples, ${got}`,
      );
    }
    return results;
  };
  return {
    type,
    options,
    needs,
    ...(source && { source }),
    scoreMany,
    scoreOne: async (input) =>
      type === 'batch' ? (await scoreMany([input]))[0]! : one(withAliases(input), options, context),
    close: close ?? (async () => {}),
  };
}

/** The built-in scores by data source. */
export const defaultScorer = (options: Record<string, unknown> = {}): Scorer =>
  createScorer({ type: 'sequential', compute: defaultComputeScore, options, source: 'default' });
