/**
 * The rollout engine: continuous batching inside the trainer's process, on the trainer's weights. Requests come and go at
 * any time; every step schedules, runs, and hands out tokens, and between steps the event loop gets its turn.
 */

import type { Tokenizer } from '../models/tokenizer/index.js';
import type { CausalLM } from '../models/transformer.js';
import { BlockPool } from './blocks.js';
import { KvCache } from './kv-cache.js';
import { EagerRunner, type ModelRunner } from './model-runner.js';
import type { Sampled } from './sampler.js';
import { validateSampling } from './sampling-params.js';
import { Scheduler } from './scheduler.js';
import { Sequence } from './sequence.js';
import type { Engine, Generation, GenerationRequest } from './types.js';

export interface EngineOptions {
  /** Most sequences that run at once. */
  maxNumSeqs?: number;
  /** Most prompt tokens computed in one pass; longer prompts are cut into chunks. */
  maxNumBatchedTokens?: number;
  /** Longest prompt + output; the model's own limit by default. */
  maxModelLength?: number;
  /** Bytes for keys and values. Default: what `maxNumSeqs` full-length sequences need, at most 2 GiB on the CPU. */
  cacheBytes?: number;
  /** On a GPU: share of its memory that may be in use once the cache is there. Default 0.5: training needs the rest. */
  gpuMemoryUtilization?: number;
  blockSize?: number;
  enablePrefixCaching?: boolean;
  /** Needed for stop strings. */
  tokenizer?: Tokenizer;
  /** Key of the sampling noise of requests without a seed of their own. */
  seed?: number;
  endTokenIds?: readonly number[];
}

export class RequestError extends Error {
  override readonly name = 'RequestError';
}

export interface EngineStats {
  numWaiting: number;
  numRunning: number;
  numPreempted: number;
  numFreeBlocks: number;
  numBlocks: number;
  numPromptTokens: number;
  numCachedTokens: number;
  numGeneratedTokens: number;
  numSteps: number;
}

export class RolloutEngine implements Engine {
  readonly maxModelLength: number;
  weightVersion = 0;
  private readonly pool: BlockPool;
  private readonly scheduler: Scheduler;
  private readonly runner: ModelRunner;
  private readonly live = new Map<string, Sequence>();
  private readonly endTokens: Set<number>;
  private readonly tokenizer: Tokenizer | null;
  private readonly seed: number;
  private readonly blockSize: number;
  private nextId = 0;
  private looping = false;
  private awake = true;
  private closed = false;
  /** Called once when the engine is closed; a loader that owns the model frees it here. */
  onClosed: (() => void) | null = null;
  private readonly counters = { numPromptTokens: 0, numCachedTokens: 0, numGeneratedTokens: 0, numSteps: 0 };

  constructor(
    private readonly model: CausalLM,
    options: EngineOptions = {},
    makeRunner?: (numBlocks: number, blockSize: number, endTokens: readonly number[]) => ModelRunner,
  ) {
    this.blockSize = options.blockSize ?? 16;
    const wanted = Math.min(
      options.maxModelLength ?? model.config.maxPositionEmbeddings,
      model.config.maxPositionEmbeddings,
    );
    const maxNumSeqs = options.maxNumSeqs ?? 256;
    const blockBytes = KvCache.bytesPerBlock(model.config, this.blockSize, 4);
    const perSequence = Math.ceil(wanted / this.blockSize);
    const bytes = options.cacheBytes ?? Math.min(maxNumSeqs * perSequence * blockBytes, 2 * 2 ** 30);
    const numBlocks = Math.max(1, Math.min(Math.floor(bytes / blockBytes), maxNumSeqs * (perSequence + 1)));
    this.maxModelLength = Math.min(wanted, numBlocks * this.blockSize);
    this.tokenizer = options.tokenizer ?? null;
    this.seed = options.seed ?? 0;
    const ends = options.endTokenIds ?? model.config.eosTokenIds;
    this.endTokens = new Set(ends);
    this.pool = new BlockPool(numBlocks, this.blockSize);
    this.scheduler = new Scheduler(this.pool, {
      maxNumSeqs,
      maxNumBatchedTokens: options.maxNumBatchedTokens ?? 8192,
      enablePrefixCaching: options.enablePrefixCaching ?? true,
    });
    this.runner =
      makeRunner?.(numBlocks, this.blockSize, ends) ?? new EagerRunner(model, numBlocks, this.blockSize, ends);
    this.runner.allocate();
  }

  get stats(): EngineStats {
    return {
      numWaiting: this.scheduler.waiting.length,
      numRunning: this.scheduler.running.length,
      numPreempted: this.scheduler.numPreempted,
      numFreeBlocks: this.pool.numFree,
      numBlocks: this.pool.numBlocks,
      ...this.counters,
    };
  }

  submit(request: GenerationRequest): Generation {
    if (this.closed) throw new RequestError('the engine is closed');
    const id = request.id ?? `request-${this.nextId++}`;
    if (this.live.has(id)) throw new RequestError(`request id '${id}' is already running`);
    const sampling = validateSampling(request.sampling, { vocabSize: this.model.config.vocabSize });
    this.checkPrompt(request.promptIds);
    if (sampling.stop.length > 0 && !this.tokenizer)
      throw new RequestError('stop strings need an engine with a tokenizer');
    const sequence = new Sequence(id, request.promptIds, sampling, request.sampleIndex ?? 0, {
      blockSize: this.blockSize,
      maxModelLength: this.maxModelLength,
      seed: sampling.seed ?? this.seed,
    });
    if (sampling.stop.length > 0) sequence.detokenizer = this.tokenizer!.detokenizer({ skipSpecialTokens: false });
    this.counters.numPromptTokens += sequence.promptLength;
    this.live.set(id, sequence);
    this.scheduler.add(sequence);
    if (request.signal) {
      if (request.signal.aborted) this.abort(id);
      else request.signal.addEventListener('abort', () => this.abort(id), { once: true });
    }
    this.start();
    return sequence;
  }

  private checkPrompt(prompt: ArrayLike<number>): void {
    if (prompt.length === 0) throw new RequestError('the prompt has no tokens');
    if (prompt.length >= this.maxModelLength)
      throw new RequestError(
        `the prompt has ${prompt.length} tokens; prompt and output together may have at most ${this.maxModelLength}`,
      );
    for (let k = 0; k < prompt.length; k++) {
      const token = prompt[k]!;
      if (!(Number.isInteger(token) && token >= 0 && token < this.model.config.vocabSize))
        throw new RequestError(
          `prompt token ${k} is ${token}; the vocabulary has ${this.model.config.vocabSize} tokens`,
        );
    }
  }

  abort(id: string): void {
    const sequence = this.live.get(id);
    if (!sequence) return;
    this.scheduler.remove(sequence);
    this.finish(sequence, 'abort');
  }

  /** One schedule, one pass of the model, tokens handed out. Returns whether anything was done. */
  step(): boolean {
    const schedule = this.scheduler.schedule();
    if (schedule.kind === 'idle') return false;
    this.counters.numSteps++;
    if (schedule.kind === 'prefill') {
      const sampled = this.runner.prefill(schedule.jobs);
      for (const [k, job] of schedule.jobs.entries()) {
        this.scheduler.prefilled(job);
        if (job.completes) for (const [j, sequence] of job.sequences.entries()) this.accept(sequence, sampled[k]![j]!);
      }
      this.runner.copyBlocks(this.scheduler.copies.splice(0));
    } else {
      const sampled = this.runner.decode(schedule.sequences);
      for (const [k, sequence] of schedule.sequences.entries()) {
        this.scheduler.decoded(sequence);
        this.accept(sequence, sampled[k]!);
      }
    }
    return true;
  }

  private accept(sequence: Sequence, sampled: Sampled): void {
    const { tokenId } = sampled;
    sequence.push(tokenId, sampled.logProb, this.weightVersion, sampled.topLogProbs);
    this.counters.numGeneratedTokens++;
    const { ignoreEos, stopTokenIds, minTokens, stop } = sequence.sampling;
    const longEnough = sequence.numOutput >= minTokens;
    let reason: number | string | null = null;
    if (longEnough && ((!ignoreEos && this.endTokens.has(tokenId)) || stopTokenIds.includes(tokenId))) reason = tokenId;
    if (sequence.detokenizer) {
      sequence.text += sequence.detokenizer.push(tokenId);
      if (reason === null && longEnough) reason = stop.find((text) => sequence.text.includes(text)) ?? null;
    }
    if (reason !== null) this.retire(sequence, 'stop', reason);
    else if (sequence.numOutput >= sequence.maxTokens) this.retire(sequence, 'length');
  }

  private retire(sequence: Sequence, how: 'stop' | 'length', reason: number | string | null = null): void {
    this.scheduler.remove(sequence);
    this.finish(sequence, how, reason);
  }

  private finish(sequence: Sequence, how: 'stop' | 'length' | 'abort', reason: number | string | null = null): void {
    this.live.delete(sequence.id);
    this.counters.numCachedTokens += sequence.numCachedTokens;
    sequence.finish(how, reason);
  }

  private start(): void {
    if (this.looping || !this.awake || this.closed) return;
    this.looping = true;
    setImmediate(this.turn);
  }

  private readonly turn = (): void => {
    this.looping = false;
    if (!this.awake || this.closed || !this.scheduler.hasWork) return;
    try {
      if (!this.step())
        throw new Error('the scheduler has work but can run none of it; the cache is too small for one sequence');
    } catch (error) {
      // Nothing that is in flight can be trusted after a failed pass: everybody is told, the engine stays usable.
      for (const sequence of [...this.live.values()]) {
        this.scheduler.remove(sequence);
        this.live.delete(sequence.id);
        sequence.fail(error as Error);
      }
      return;
    }
    this.start();
  };

  async updateWeights(): Promise<void> {
    this.weightVersion++;
    this.pool.forgetAll();
    this.scheduler.restartAll();
  }

  async sleep(): Promise<void> {
    if (!this.awake) return;
    this.awake = false;
    this.pool.forgetAll();
    this.scheduler.restartAll();
    this.runner.release();
  }

  async wake(): Promise<void> {
    if (this.awake) return;
    this.runner.allocate();
    this.awake = true;
    if (this.scheduler.hasWork) this.start();
  }

  async close(): Promise<void> {
    if (this.closed) return;
    this.closed = true;
    for (const id of [...this.live.keys()]) this.abort(id);
    this.runner.release();
    this.onClosed?.();
  }
}
