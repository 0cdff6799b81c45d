/** `/v1/completions` as vLLM and SGLang speak it: token ids in, token ids and log-probs out. */
import { createHash } from 'node:crypto';
import type { CompleteSamplingParams } from '../sampling-params.js';
import type { FinishReason, TopLogProb } from '../types.js';
import { HttpEngineError } from './errors.js';

/** What one server-sent chunk adds. */
export interface WireChunk {
  tokens: { tokenId: number; logProb: number; topLogProbs?: TopLogProb[] }[];
  finishReason?: FinishReason;
  stopReason?: number | string | null;
  numCachedTokens?: number;
}

/** `sampled` are tokens of an earlier attempt that broke off: they are continued, not sampled again. */
export function completionBody(
  model: string,
  promptIds: ArrayLike<number>,
  sampled: readonly number[],
  sampling: CompleteSamplingParams,
  sampleIndex: number,
): Record<string, unknown> {
  const differs = (field: string, value: unknown, usual: unknown) => (value === usual ? {} : { [field]: value });
  return {
    model,
    prompt: [...Array.from(promptIds), ...sampled],
    max_tokens: sampling.maxTokens - sampled.length,
    temperature: sampling.temperature,
    top_p: sampling.topP,
    ...differs('top_k', sampling.topK, -1),
    ...differs('min_p', sampling.minP, 0),
    ...differs('repetition_penalty', sampling.repetitionPenalty, 1),
    ...differs('presence_penalty', sampling.presencePenalty, 0),
    ...differs('frequency_penalty', sampling.frequencyPenalty, 0),
    ...differs('min_tokens', Math.max(0, sampling.minTokens - sampled.length), 0),
    ...differs('ignore_eos', sampling.ignoreEos, false),
    ...(sampling.stop.length > 0 ? { stop: sampling.stop } : {}),
    ...(sampling.stopTokenIds.length > 0 ? { stop_token_ids: sampling.stopTokenIds } : {}),
    ...(sampling.seed === undefined ? {} : { seed: wireSeed(sampling.seed, sampleIndex, sampled.length) }),
    logprobs: Math.max(1, sampling.topLogProbs), // 0 reads as "none" to some servers.
    return_token_ids: true,
    return_tokens_as_token_ids: true,
    stream: true,
    stream_options: { include_usage: true },
  };
}

/** The server knows one seed per request; samples and continuations must still draw different noise. */
function wireSeed(seed: number, sampleIndex: number, offset: number): number {
  if (sampleIndex === 0 && offset === 0) return seed;
  return createHash('sha256').update(`${seed}/${sampleIndex}/${offset}`).digest().readUInt32LE(0);
}

/** Moving sampled tokens into the prompt must not change what is sampled next. */
export function canContinue(sampling: CompleteSamplingParams): boolean {
  return sampling.presencePenalty === 0 && sampling.frequencyPenalty === 0 && sampling.stop.length === 0;
}

interface WireChoice {
  token_ids?: number[] | null;
  logprobs?: {
    tokens?: string[];
    token_logprobs?: (number | null)[];
    top_logprobs?: (Record<string, number> | null)[] | null;
  } | null;
  finish_reason?: string | null;
  stop_reason?: number | string | null;
}

export function readChunk(data: unknown, numTopLogProbs: number): WireChunk {
  const chunk = data as {
    error?: { message?: string; code?: unknown };
    choices?: WireChoice[];
    usage?: { prompt_tokens_details?: { cached_tokens?: number } | null } | null;
  };
  if (chunk.error) {
    // Sent in the middle of a stream: the request itself was fine, the server had to stop.
    throw new HttpEngineError(`the server ended the stream: ${chunk.error.message}`, { isTransient: true });
  }
  const numCachedTokens = chunk.usage?.prompt_tokens_details?.cached_tokens;
  const choice = chunk.choices?.[0];
  if (!choice) return { tokens: [], numCachedTokens };
  const tokenIds = choice.token_ids ?? choice.logprobs?.tokens?.map(idOfToken) ?? [];
  const logProbs = choice.logprobs?.token_logprobs ?? [];
  if (logProbs.length !== tokenIds.length) {
    throw new HttpEngineError(
      `the server sent ${tokenIds.length} token ids with ${logProbs.length} log-probs; it must offer logprobs and ` +
        'return_token_ids on /v1/completions (recent vLLM and SGLang do, and verlet serve)',
    );
  }
  const tokens = tokenIds.map((tokenId, at) => ({
    tokenId,
    logProb: logProbs[at]!,
    ...(numTopLogProbs > 0 ? { topLogProbs: readTop(choice.logprobs?.top_logprobs?.[at], numTopLogProbs) } : {}),
  }));
  return { tokens, numCachedTokens, stopReason: choice.stop_reason, finishReason: readFinish(choice.finish_reason) };
}

function readFinish(reason: string | null | undefined): FinishReason | undefined {
  if (!reason) return undefined;
  if (reason === 'stop' || reason === 'length') return reason;
  throw new HttpEngineError(`the server ended the generation with '${reason}'`, { isTransient: reason === 'abort' });
}

/** vLLM adds the chosen token when it is not among the most likely; only the asked number is kept. */
function readTop(top: Record<string, number> | null | undefined, count: number): TopLogProb[] {
  return Object.entries(top ?? {})
    .map(([token, logProb]) => ({ tokenId: idOfToken(token), logProb }))
    .sort((left, right) => right.logProb - left.logProb)
    .slice(0, count);
}

function idOfToken(token: string): number {
  const id = /^token_id:(\d+)$/.exec(token)?.[1];
  if (id !== undefined) return Number(id);
  throw new HttpEngineError(
    `the server names tokens by text (${JSON.stringify(token)}), which cannot be turned back into ids; it must honour ` +
      'return_token_ids and return_tokens_as_token_ids on /v1/completions (recent vLLM and SGLang do, and verlet serve)',
  );
}
