/**
 * The rollout engine: continuous batching inside the trainer's process, on the trainer's weights. Requests come and go at
 * any time; every step schedules, runs, and hands out tokens, and between steps the event loop gets its turn.
 */

import { loadWeights } from '../models/checkpoint.js';
import type { Tokenizer } from '../models/tokenizer/index.js';
import type { CausalLM } from '../models/transformer.js';
import type { ActivationTape } from './activation-tape.js';
import { BlockPool } from './blocks.js';
import { cacheBudget } from './cache-budget.js';
import { CudaRunner } from './cuda-runner.js';
import { KvCache } from './kv-cache.js';
import { EagerRunner, type LaunchedStep, type ModelRunner } from './model-runner.js';
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
  /**
   * Bytes for keys and values. Default: what `maxNumSeqs` full-length sequences need, at most 2 GiB on the CPU, and on a GPU
   * what `gpuMemoryUtilization` leaves.
   */
  cacheBytes?: number;
  /** On a GPU: share of its memory that may be in use once the cache is there. Default 0.5: training needs the rest. */
  gpuMemoryUtilization?: number;
  blockSize?: number;
  enablePrefixCaching?: boolean;
  /** Needed for stop strings; its end tokens count beside the model's. */
  tokenizer?: Tokenizer;
  /** Key of the sampling noise of requests without a seed of their own. */
  seed?: number;
  /**
   * On the CPU, most tokens that a sequence gets in one step. More spare a small model the time between its tokens; those who
   * wait, and who reads along, see them a few at a time. Default 1.
   */
  tokensPerStep?: number;
  /** Instead of the end tokens of model and tokenizer. */
  endTokenIds?: readonly number[];
  /** Where the CPU's engine writes down what the layers compute, for a trainer that shares the weights. */
  tape?: ActivationTape | null;
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
  /** The decode step that the device works on while the host hands out the tokens of the one before. */
  private flight: LaunchedStep | null = null;
  private readonly live = new Map<string, Sequence>();
  private readonly endTokens: Set<number>;
  private readonly tokenizer: Tokenizer | null;
  private readonly seed: number;
  private readonly blockSize: number;
  private readonly tokensPerStep: number;
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
    const onCuda = model.device.startsWith('cuda');
    const blockBytes = KvCache.bytesPerBlock(model.config, this.blockSize, onCuda ? 2 : 4);
    const perSequence = Math.ceil(wanted / this.blockSize) + 1;
    const bytes = options.cacheBytes ?? cacheBudget(model.device, options.gpuMemoryUtilization);
    const numBlocks = Math.max(1, Math.min(Math.floor(bytes / blockBytes), maxNumSeqs * perSequence));
    this.maxModelLength = Math.min(wanted, numBlocks * this.blockSize);
    this.tokenizer = options.tokenizer ?? null;
    this.seed = options.seed ?? 0;
    this.tokensPerStep = options.tokensPerStep ?? 1;
    // As vLLM: a model that was taught to end its turns otherwise than its base says so in its tokenizer.
    const ends = options.endTokenIds ?? [
      ...new Set([...model.config.eosTokenIds, ...(options.tokenizer?.eosTokenIds ?? [])]),
    ];
    this.endTokens = new Set(ends);
    this.pool = new BlockPool(numBlocks, this.blockSize);
    this.scheduler = new Scheduler(this.pool, {
      maxNumSeqs,
      maxNumBatchedTokens: options.maxNumBatchedTokens ?? 8192,
      enablePrefixCaching: options.enablePrefixCaching ?? true,
    });
    const { blockSize, maxModelLength } = this;
    this.runner =
      makeRunner?.(numBlocks, blockSize, ends) ??
      (onCuda
        ? new CudaRunner(model, { numBlocks, blockSize, maxNumSeqs, maxModelLength, endTokens: ends })
        : new EagerRunner(model, numBlocks, blockSize, ends, options.tape));
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
      else this.listen(sequence, request.signal);
    }
    this.start();
    return sequence;
  }

  /** One signal may see many requests come and go, a turn each: none of them stays behind in its list of listeners. */
  private listen(sequence: Sequence, signal: AbortSignal): void {
    const stop = (): void => this.abort(sequence.id);
    signal.addEventListener('abort', stop, { once: true });
    const leave = (): void => signal.removeEventListener('abort', stop);
    sequence.output.then(leave, leave);
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
    if (this.flight) return this.stepInFlight(this.flight);
    const schedule = this.scheduler.schedule();
    if (schedule.kind === 'idle') return false;
    this.counters.numSteps++;
    if (schedule.kind === 'prefill') {
      const sampled = this.runner.prefill(schedule.jobs);
      for (const job of schedule.jobs) this.scheduler.prefilled(job);
      // Before tokens are handed out: who ends with its first one is complete, its blocks too.
      this.runner.copyBlocks(this.scheduler.copies.splice(0));
      for (const [k, job] of schedule.jobs.entries())
        if (job.completes)
          for (const [j, sequence] of job.sequences.entries()) this.acceptOne(sequence, sampled[k]![j]!);
    } else if (this.runner.canLaunch?.(schedule.sequences, null))
      this.flight = this.runner.launch!(schedule.sequences, null);
    else this.decode(schedule.sequences);
    return true;
  }

  private decode(sequences: readonly Sequence[]): void {
    const steps =
      this.tokensPerStep > 1 && this.runner.canDecodeMany?.(sequences)
        ? this.scheduler.reserve(sequences, this.tokensPerStep)
        : 1;
    if (steps === 1) {
      this.decoded(sequences, this.runner.decode(sequences));
      return;
    }
    const { tokenIds, logProbs } = this.runner.decodeMany!(sequences, steps);
    for (const [k, sequence] of sequences.entries())
      for (let at = k * steps; at < (k + 1) * steps && tokenIds[at]! >= 0 && !sequence.isFinished; at++) {
        this.scheduler.decoded(sequence);
        this.accept(sequence, tokenIds[at]!, logProbs[at]!);
      }
  }

  /** Launches the next step before the tokens of the last one are looked at; who turns out to be finished ran once too often. */
  private stepInFlight(flight: LaunchedStep): boolean {
    const next = this.scheduler.scheduleNext();
    this.flight = null;
    if (next && next.length > 0 && this.runner.canLaunch!(next, flight)) {
      this.counters.numSteps++;
      this.flight = this.runner.launch!(next, flight);
    }
    this.decoded(flight.sequences, flight.collect());
    return true;
  }

  private decoded(sequences: readonly Sequence[], sampled: readonly Sampled[]): void {
    for (const [k, sequence] of sequences.entries()) {
      // Aborted, or ended by the token before, while the device was already at work on it.
      if (sequence.isFinished) continue;
      this.scheduler.decoded(sequence);
      this.acceptOne(sequence, sampled[k]!);
    }
  }

  /** Nothing is on the device any more. */
  private land(): void {
    const { flight } = this;
    this.flight = null;
    if (flight) this.decoded(flight.sequences, flight.collect());
  }

  private acceptOne(sequence: Sequence, { tokenId, logProb, topLogProbs }: Sampled): void {
    this.accept(sequence, tokenId, logProb, topLogProbs);
  }

  private accept(sequence: Sequence, tokenId: number, logProb: number, topLogProbs?: Sampled['topLogProbs']): void {
    sequence.push(tokenId, logProb, this.weightVersion, topLogProbs);
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
    this.runner.completed?.(sequence);
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
    if (!this.awake || this.closed || !(this.scheduler.hasWork || this.flight)) return;
    try {
      if (!this.step())
        throw new Error('the scheduler has work but can run none of it; the cache is too small for one sequence');
    } catch (error) {
      // Nothing that is in flight can be trusted after a failed pass: everybody is told, the engine stays usable.
      this.flight = null;
      this.scheduler.copies.length = 0;
      for (const sequence of [...this.live.values()]) {
        this.scheduler.remove(sequence);
        this.live.delete(sequence.id);
        sequence.fail(error as Error);
      }
      return;
    }
    this.start();
  };

  /** Takes other weights of the same shape from a folder; requests that run go on with them. */
  async loadWeights(folder: string): Promise<void> {
    this.land();
    loadWeights(this.model, folder);
    await this.updateWeights();
  }

  async updateWeights(): Promise<void> {
    this.land();
    this.weightVersion++;
    this.runner.weightsChanged?.();
    this.pool.forgetAll();
    this.scheduler.restartAll();
  }

  /** Prepares for all batch sizes now instead of when each is first met. */
  warmUp(): void {
    if (this.runner instanceof CudaRunner) this.runner.warmUp();
  }

  async sleep(): Promise<void> {
    if (!this.awake) return;
    this.land();
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
    this.flight = null;
    for (const id of [...this.live.keys()]) this.abort(id);
    this.runner.release();
    this.onClosed?.();
  }
}
