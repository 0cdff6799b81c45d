/**
 * An engine whose tokens come from an external OpenAI-compatible server (vLLM, SGLang, `verlet serve`).
 *
 * Log-probs are what the server says they are. Verlet's convention is the distribution at the sampling temperature:
 * start vLLM with `--logprobs-mode processed_logprobs`, or sample at temperature 1 without truncation, where all agree.
 */
import { randomUUID } from 'node:crypto';
import { HttpClient } from './http/client.js';
import { canContinue, completionBody, readChunk } from './http/completion-wire.js';
import { HttpEngineError } from './http/errors.js';
import { Gate } from './http/gate.js';
import { RemoteGeneration } from './http/remote-generation.js';
import { type CompleteSamplingParams, validateSampling } from './sampling-params.js';
import type { Engine, Generation, GenerationRequest } from './types.js';

export { HttpEngineError } from './http/errors.js';

export interface HttpEngineOptions {
  /** `http://host:port`, with or without `/v1`. */
  baseUrl: string;
  apiKey?: string;
  /** Default: the first model that the server lists. */
  model?: string;
  /** Default: what the server lists as `max_model_len`. */
  maxModelLength?: number;
  /** The model's end tokens: tell a finished answer from a broken one when the connection fails right after its end. */
  endTokenIds?: readonly number[];
  /** Longest time for one generation, retries and waiting for the server included. Default 10 minutes. */
  timeoutMs?: number;
  /** Longest silence of the server while it answers. Default 2 minutes. */
  idleTimeoutMs?: number;
  /** How often a transient failure is tried again. Default 5. */
  maxRetries?: number;
  /** Wait before the first retry; doubles each time. Default 250 ms. */
  retryDelayMs?: number;
  /** Requests in flight at a time; more wait here. Default 256. */
  maxConcurrency?: number;
  /** Brings new weights to the server; called by `updateWeights` before the version counts up. */
  transferWeights?: (nextVersion: number) => Promise<void>;
}

interface ListedModel {
  id: string;
  max_model_len?: number;
}

/** For either server: the first path that it has is taken. */
const SLEEP_PATHS = ['/sleep?level=1', '/release_memory_occupation'];
const WAKE_PATHS = ['/wake_up', '/resume_memory_occupation'];
const FORGET_PREFIXES_PATHS = ['/reset_prefix_cache', '/flush_cache'];

export class HttpEngine implements Engine {
  weightVersion = 0;
  private readonly live = new Map<string, AbortController>();
  private readonly gate: Gate;
  private readonly closing = new AbortController();
  private releaseSleep: (() => void) | undefined;

  private constructor(
    private readonly client: HttpClient,
    readonly model: string,
    readonly maxModelLength: number,
    private readonly timeoutMs: number,
    private readonly options: HttpEngineOptions,
  ) {
    this.gate = new Gate(options.maxConcurrency ?? 256);
  }

  /** Asks the server for its models, waiting for one that is still starting up as the retries allow. */
  static async connect(options: HttpEngineOptions): Promise<HttpEngine> {
    const { timeoutMs = 600_000, idleTimeoutMs = 120_000, maxRetries = 5, retryDelayMs = 250 } = options;
    const root = options.baseUrl.replace(/\/+$/, '').replace(/\/v1$/, '');
    const client = new HttpClient({ root, apiKey: options.apiKey, idleTimeoutMs, maxRetries, retryDelayMs });
    const answer = (await client.request('GET', '/v1/models', AbortSignal.timeout(timeoutMs))) as {
      data?: ListedModel[];
    };
    const listed = answer?.data ?? [];
    const model = options.model ? listed.find(({ id }) => id === options.model) : listed[0];
    if (!model) {
      const names = listed.map(({ id }) => id).join(', ') || 'nothing';
      throw new HttpEngineError(`${root} does not serve ${options.model ?? 'any model'}; it lists: ${names}`);
    }
    const maxModelLength = options.maxModelLength ?? model.max_model_len;
    if (maxModelLength === undefined) {
      throw new HttpEngineError(`${root} does not say how long its context is; set maxModelLength`);
    }
    return new HttpEngine(client, model.id, maxModelLength, timeoutMs, options);
  }

  submit(request: GenerationRequest): Generation {
    const id = request.id ?? randomUUID();
    if (this.live.has(id)) throw new HttpEngineError(`a request with id '${id}' is already running`);
    if (this.closing.signal.aborted) throw new HttpEngineError('the engine is closed');
    const sampling = validateSampling(request.sampling);
    const room = this.maxModelLength - request.promptIds.length;
    if (request.promptIds.length === 0) throw new HttpEngineError('the prompt is empty');
    if (room <= 0) {
      throw new HttpEngineError(
        `the prompt has ${request.promptIds.length} tokens, the model's context is ${this.maxModelLength}`,
        { status: 400, code: 'context_length_exceeded' },
      );
    }
    sampling.maxTokens = Math.min(sampling.maxTokens, room);
    const aborter = new AbortController();
    this.live.set(id, aborter);
    const signals = [aborter.signal, this.closing.signal, ...(request.signal ? [request.signal] : [])];
    const generation = new RemoteGeneration(id, sampling.topLogProbs > 0);
    this.run(request, sampling, generation, AbortSignal.any(signals))
      .catch((error) => generation.fail(error))
      .finally(() => this.live.delete(id));
    return generation;
  }

  abort(id: string): void {
    this.live.get(id)?.abort();
  }

  async updateWeights(): Promise<void> {
    const release = this.gate.hold();
    try {
      await this.options.transferWeights?.(this.weightVersion + 1);
      await this.control(FORGET_PREFIXES_PATHS);
      this.weightVersion++;
    } finally {
      release();
    }
  }

  /** Requests that run are finished first; where the server cannot sleep, new ones are only held back here. */
  async sleep(): Promise<void> {
    if (this.releaseSleep) return;
    this.releaseSleep = this.gate.hold();
    await this.gate.drained();
    await this.control(SLEEP_PATHS);
  }

  async wake(): Promise<void> {
    if (!this.releaseSleep) return;
    await this.control(WAKE_PATHS);
    this.releaseSleep();
    this.releaseSleep = undefined;
  }

  async close(): Promise<void> {
    this.closing.abort();
    await this.gate.drained();
  }

  private async run(
    request: GenerationRequest,
    sampling: CompleteSamplingParams,
    generation: RemoteGeneration,
    aborted: AbortSignal,
  ): Promise<void> {
    const deadline = AbortSignal.timeout(this.timeoutMs);
    const signal = AbortSignal.any([aborted, deadline]);
    const hasPlace = await this.gate.enter(signal);
    try {
      for (let failures = 0; !signal.aborted; failures++) {
        const before = generation.events.length;
        try {
          await this.attempt(request, sampling, generation, signal);
          return;
        } catch (error) {
          if (signal.aborted) break;
          const sampled = generation.events.length;
          if (sampled > before) failures = 0; // It is getting on; only failures in a row count.
          if (sampled > 0 && !canContinue(sampling)) throw brokenOff(error, sampled);
          if (!(await this.client.mayRetry(error, failures, signal)) && !signal.aborted) throw error;
        }
      }
      if (aborted.aborted) return generation.finish('abort', null);
      throw new HttpEngineError(
        `request ${generation.id} was not finished within ${this.timeoutMs} ms; ${generation.events.length} tokens had come`,
        { code: 'timeout' },
      );
    } finally {
      if (hasPlace) this.gate.leave();
    }
  }

  /** Samples, or goes on sampling, until the server says it is finished. */
  private async attempt(
    request: GenerationRequest,
    sampling: CompleteSamplingParams,
    generation: RemoteGeneration,
    signal: AbortSignal,
  ): Promise<void> {
    const sampled = generation.events.map((event) => event.tokenId);
    const last = sampled.at(-1);
    if (last !== undefined && this.isEnd(last, sampled.length, sampling)) return generation.finish('stop', last);
    if (sampled.length >= sampling.maxTokens) return generation.finish('length', null);
    const body = completionBody(this.model, request.promptIds, sampled, sampling, request.sampleIndex ?? 0);
    let end: { finishReason: 'stop' | 'length' | 'abort'; stopReason: number | string | null } | undefined;
    for await (const data of this.client.streamEvents('/v1/completions', signal, body)) {
      const chunk = readChunk(data, sampling.topLogProbs);
      for (const token of chunk.tokens) generation.push({ ...token, weightVersion: this.weightVersion });
      generation.numCachedTokens = Math.max(generation.numCachedTokens, chunk.numCachedTokens ?? 0);
      if (chunk.finishReason) end = { finishReason: chunk.finishReason, stopReason: chunk.stopReason ?? null };
    }
    if (!end) throw new HttpEngineError('the server ended the stream without a finish reason', { isTransient: true });
    // vLLM leaves the reason out when it was the model's own end token.
    const lastToken = generation.events.at(-1)?.tokenId ?? null;
    generation.finish(end.finishReason, end.finishReason === 'stop' ? (end.stopReason ?? lastToken) : null);
  }

  private isEnd(tokenId: number, length: number, sampling: CompleteSamplingParams): boolean {
    if (length < sampling.minTokens) return false;
    if (sampling.stopTokenIds.includes(tokenId)) return true;
    return !sampling.ignoreEos && (this.options.endTokenIds ?? []).includes(tokenId);
  }

  /** Calls the first of the paths that the server has; a server with none of them is fine. */
  private async control(paths: readonly string[]): Promise<void> {
    for (const path of paths) {
      try {
        await this.client.request('POST', path, AbortSignal.timeout(this.timeoutMs), {});
        return;
      } catch (error) {
        const isMissing = error instanceof HttpEngineError && (error.status === 404 || error.status === 405);
        if (!isMissing) throw error;
      }
    }
  }
}

function brokenOff(error: unknown, sampled: number): HttpEngineError {
  return new HttpEngineError(
    `the answer broke off after ${sampled} tokens and cannot be continued (stop strings and penalties depend on them): ` +
      `${(error as Error).message}`,
    { cause: error },
  );
}
