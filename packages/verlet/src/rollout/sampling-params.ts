/** One place where sampling parameters are checked and completed; the engines and the server all go through it. */
import type { SamplingParams } from './types.js';

/** Every field decided, except `seed`: without one the caller chooses how noise is keyed. */
export type CompleteSamplingParams = Required<Omit<SamplingParams, 'seed'>> & { seed?: number };

/** What depends on the model or the deployment rather than on the request. */
export interface SamplingLimits {
  /** Token ids at or above it are refused. */
  vocabSize?: number;
  /** Most alternatives per position that may be asked for. */
  maxTopLogProbs?: number;
}

export class SamplingParamsError extends Error {
  override readonly name = 'SamplingParamsError';

  constructor(
    readonly field: string,
    readonly value: unknown,
    readonly allowed: string,
  ) {
    super(`sampling parameter ${field} is ${show(value)}; allowed: ${allowed}`);
  }
}

/** What shapes the distribution that is sampled from, and the values that leave it as it is. */
export const NEUTRAL_SAMPLING = {
  temperature: 1,
  topK: -1,
  topP: 1,
  minP: 0,
  repetitionPenalty: 1,
  presencePenalty: 0,
  frequencyPenalty: 0,
} satisfies SamplingParams;

/** `maxTokens` absent means: as many as the context holds. */
const DEFAULTS: CompleteSamplingParams = {
  ...NEUTRAL_SAMPLING,
  stopTokenIds: [],
  stop: [],
  ignoreEos: false,
  minTokens: 0,
  maxTokens: Number.POSITIVE_INFINITY,
  topLogProbs: 0,
};

const FIELDS = [...Object.keys(DEFAULTS), 'seed'];

/**
 * Completes `params` with the defaults, or throws a {@link SamplingParamsError} that names the field, its value and
 * what is allowed.
 *
 * ```ts
 * validateSampling({ temperature: 0 }).topP; // 1
 * validateSampling({ topP: 0 }); // throws: sampling parameter topP is 0; allowed: a number above 0 and at most 1
 * ```
 */
export function validateSampling(params: SamplingParams = {}, limits: SamplingLimits = {}): CompleteSamplingParams {
  for (const field of Object.keys(params)) {
    if (!FIELDS.includes(field)) {
      throw new SamplingParamsError(
        field,
        params[field as keyof SamplingParams],
        `no such parameter; known are ${FIELDS.join(', ')}`,
      );
    }
  }
  const given = Object.fromEntries(Object.entries(params).filter(([, value]) => value !== undefined));
  const complete: CompleteSamplingParams = { ...DEFAULTS, ...given };
  const check = (field: keyof SamplingParams, holds: (value: never) => boolean, allowed: string) => {
    const value = complete[field];
    if (!holds(value as never)) throw new SamplingParamsError(field, value, allowed);
  };

  check('temperature', between(0, Number.MAX_VALUE), 'a number of at least 0 (0 is greedy)');
  check('topK', (k: number) => Number.isSafeInteger(k) && k >= -1, '-1 (all tokens) or an integer of at least 1');
  check('topP', (p: number) => between(0, 1)(p) && p > 0, 'a number above 0 and at most 1');
  check('minP', between(0, 1), 'a number from 0 to 1');
  check('repetitionPenalty', (r: number) => between(0, 10)(r) && r > 0, 'a number above 0 and at most 10');
  check('presencePenalty', between(-2, 2), 'a number from -2 to 2');
  check('frequencyPenalty', between(-2, 2), 'a number from -2 to 2');
  check('ignoreEos', (flag: unknown) => typeof flag === 'boolean', 'true or false');
  check('maxTokens', (n: number) => n === Number.POSITIVE_INFINITY || integerFrom(1)(n), 'an integer of at least 1');
  check('minTokens', integerFrom(0), 'an integer of at least 0');
  check('minTokens', (n: number) => n <= complete.maxTokens, `at most maxTokens (${complete.maxTokens})`);
  check('seed', (seed: unknown) => seed === undefined || Number.isSafeInteger(seed), 'a safe integer');
  check('stop', isListOf(isNonEmptyString), 'a list of non-empty strings');

  const { vocabSize = Number.MAX_SAFE_INTEGER, maxTopLogProbs = Number.MAX_SAFE_INTEGER } = limits;
  const isTokenId = (id: unknown) => Number.isSafeInteger(id) && (id as number) >= 0 && (id as number) < vocabSize;
  check('stopTokenIds', isListOf(isTokenId), `a list of token ids${limits.vocabSize ? ` below ${vocabSize}` : ''}`);
  check(
    'topLogProbs',
    (n: number) => integerFrom(0)(n) && n <= maxTopLogProbs,
    limits.maxTopLogProbs === undefined ? 'an integer of at least 0' : `an integer from 0 to ${maxTopLogProbs}`,
  );

  // vLLM and verl configs write "keep all" both ways.
  if (complete.topK === 0) complete.topK = -1;
  complete.stop = [...complete.stop];
  complete.stopTokenIds = [...complete.stopTokenIds];
  return complete;
}

const between = (low: number, high: number) => (value: unknown) =>
  typeof value === 'number' && value >= low && value <= high;

const integerFrom = (low: number) => (value: unknown) => Number.isSafeInteger(value) && (value as number) >= low;

const isNonEmptyString = (value: unknown) => typeof value === 'string' && value.length > 0;

const isListOf = (holds: (value: unknown) => boolean) => (list: unknown) => Array.isArray(list) && list.every(holds);

function show(value: unknown): string {
  return typeof value === 'number' ? String(value) : (JSON.stringify(value) ?? String(value));
}
