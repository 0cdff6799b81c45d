/** The vocabulary between whoever wants tokens (agents, server, trainer) and whoever samples them (engines). */

/** How one sequence is sampled. Defaults are verl's: temperature 1, no truncation of the distribution. */
export interface SamplingParams {
  /** 0 means greedy. Log-probs are of the distribution at this temperature (1 when greedy), before top-k/top-p/min-p. */
  temperature?: number;
  /** -1 keeps all tokens. */
  topK?: number;
  topP?: number;
  minP?: number;
  repetitionPenalty?: number;
  presencePenalty?: number;
  frequencyPenalty?: number;
  /** Generation ends after one of these tokens; it is part of the output. Added to the model's own end tokens. */
  stopTokenIds?: number[];
  /** Generation ends once the decoded text contains one of these strings. */
  stop?: string[];
  /** Keep going past the model's end tokens. */
  ignoreEos?: boolean;
  minTokens?: number;
  maxTokens?: number;
  /** Noise is a function of (seed, sampleIndex, position) alone, so a result does not depend on who shares the batch. */
  seed?: number;
  /** Report this many most likely tokens per position as well (0: only the chosen one). */
  topLogProbs?: number;
}

export interface GenerationRequest {
  /** Made up when absent; unique among live requests. */
  id?: string;
  promptIds: ArrayLike<number>;
  sampling?: SamplingParams;
  /** Which of the n samples of a prompt this is; part of the noise key. */
  sampleIndex?: number;
  /** Aborting it ends the request with finish reason `abort`; tokens sampled so far are returned. */
  signal?: AbortSignal;
}

/**
 * `stop`: an end token or stop string was produced; `length`: `maxTokens` or the context is used up;
 * `abort`: the caller or a shutdown ended it.
 */
export type FinishReason = 'stop' | 'length' | 'abort';

export interface TopLogProb {
  tokenId: number;
  logProb: number;
}

/** One sampled token, as streamed. */
export interface TokenEvent {
  tokenId: number;
  logProb: number;
  topLogProbs?: TopLogProb[];
  weightVersion: number;
}

export interface GenerationOutput {
  id: string;
  tokenIds: number[];
  /** Log-probability of each chosen token, same length as `tokenIds`. */
  logProbs: number[];
  topLogProbs?: TopLogProb[][];
  finishReason: FinishReason;
  /** The token id or string that stopped it, when `finishReason` is `stop`. */
  stopReason: number | string | null;
  /** The weight version that produced each token. */
  weightVersions: number[];
  /** How many prompt tokens were served from a cached prefix. */
  numCachedTokens: number;
}

/** A running request: await `output`, or iterate to stream tokens as they are sampled. */
export interface Generation extends AsyncIterable<TokenEvent> {
  readonly id: string;
  readonly output: Promise<GenerationOutput>;
}

/** What samples tokens: the in-process engine, or an adapter to an external server. Tokens in, tokens out. */
export interface Engine {
  readonly weightVersion: number;
  /** Longest prompt + output the model can hold. */
  readonly maxModelLength: number;
  submit(request: GenerationRequest): Generation;
  abort(id: string): void;
  /** Weights changed (or are about to be read anew): drop cached prefixes and count a new version. */
  updateWeights(): Promise<void>;
  /** Compute prompts anew, also where their beginnings are in the cache. */
  forgetPrefixes?(): void;
  /** Free the KV cache between phases; requests submitted meanwhile wait. */
  sleep(): Promise<void>;
  wake(): Promise<void>;
  /** Abort everything that runs and release resources. */
  close(): Promise<void>;
}
