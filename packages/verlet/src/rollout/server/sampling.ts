/** From wire parameters to checked sampling parameters. */
import { randomInt } from 'node:crypto';
import { type CompleteSamplingParams, validateSampling } from '../sampling-params.js';
import type { SamplingParams } from '../types.js';
import { contextLengthExceeded, invalidParameter, toApiError } from './errors.js';

export interface WireSampling {
  temperature?: number | null;
  top_p?: number | null;
  top_k?: number | null;
  min_p?: number | null;
  repetition_penalty?: number | null;
  presence_penalty?: number | null;
  frequency_penalty?: number | null;
  stop?: string | string[] | null;
  stop_token_ids?: number[] | null;
  ignore_eos?: boolean | null;
  min_tokens?: number | null;
  seed?: number | null;
}

const MAX_TOP_LOGPROBS = 20;

/**
 * `renames` tells how the endpoint spells `maxTokens` and `topLogProbs`, for error messages. Without a seed a random one
 * is drawn: noise is a function of the seed, so equal requests would otherwise get equal answers. `given` holds only what
 * the client asked for, so that a rollout's own settings stand where the client has no opinion.
 */
export function readSampling(
  wire: WireSampling,
  own: { maxTokens?: number | null; topLogProbs?: number | null },
  renames: Record<string, string>,
  vocabSize?: number,
): { sampling: CompleteSamplingParams; given: SamplingParams } {
  const params: SamplingParams = {
    temperature: wire.temperature ?? undefined,
    topP: wire.top_p ?? undefined,
    topK: wire.top_k ?? undefined,
    minP: wire.min_p ?? undefined,
    repetitionPenalty: wire.repetition_penalty ?? undefined,
    presencePenalty: wire.presence_penalty ?? undefined,
    frequencyPenalty: wire.frequency_penalty ?? undefined,
    stop: typeof wire.stop === 'string' ? [wire.stop] : (wire.stop ?? undefined),
    stopTokenIds: wire.stop_token_ids ?? undefined,
    ignoreEos: wire.ignore_eos ?? undefined,
    minTokens: wire.min_tokens ?? undefined,
    maxTokens: own.maxTokens ?? undefined,
    topLogProbs: own.topLogProbs ?? undefined,
    seed: wire.seed ?? undefined,
  };
  const given = Object.fromEntries(Object.entries(params).filter(([, value]) => value !== undefined));
  try {
    const sampling = validateSampling(params, { vocabSize, maxTopLogProbs: MAX_TOP_LOGPROBS });
    return { given, sampling: { ...sampling, seed: sampling.seed ?? randomInt(2 ** 32) } };
  } catch (error) {
    throw toApiError(error, renames);
  }
}

/** Refuses what cannot fit, and turns "as many as fit" into a number. */
export function fitToContext(
  sampling: CompleteSamplingParams,
  promptLength: number,
  maxModelLength: number,
  param: string,
): CompleteSamplingParams {
  if (promptLength === 0) throw invalidParameter(param, 'The prompt is empty.');
  if (promptLength >= maxModelLength) throw contextLengthExceeded(maxModelLength, promptLength, 0, param);
  const room = maxModelLength - promptLength;
  if (Number.isFinite(sampling.maxTokens) && sampling.maxTokens > room) {
    throw contextLengthExceeded(maxModelLength, promptLength, sampling.maxTokens, param);
  }
  return { ...sampling, maxTokens: Math.min(sampling.maxTokens, room) };
}
