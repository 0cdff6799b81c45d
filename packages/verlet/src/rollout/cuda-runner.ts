/**
 * Runs the model on CUDA. Prompts go through FlashAttention as they come; decoding is a step of fixed shape, captured once
 * per batch size as a graph, that samples on the device. A step can be launched before the tokens of the one before it are
 * known to the host: they are read where they were written.
 */
import {
  aten,
  CudaGraph,
  type GraphPool,
  newGraphPool,
  noGrad,
  scope,
  type Tensor,
  tensor,
  zeros,
} from '@verlet/torch';
import type { ModelConfig } from '../models/config.js';
import type { CausalLM } from '../models/transformer.js';
import { DecodeAttention, PrefillAttention, type TokenRun } from './cuda-attention.js';
import { DecodeInputs, type DeviceInputs, type StagedStep } from './decode-inputs.js';
import { KvCache } from './kv-cache.js';
import type { LaunchedStep, ModelRunner } from './model-runner.js';
import { needsHost, type Sampled, sampleTokens } from './sampler.js';
import type { BlockCopy, PrefillJob } from './scheduler.js';
import type { Sequence } from './sequence.js';

export interface CudaRunnerOptions {
  numBlocks: number;
  blockSize: number;
  maxNumSeqs: number;
  maxModelLength: number;
  endTokens: readonly number[];
}

/** Sizes for which a graph is captured; a batch runs in the next larger one. */
export function batchBuckets(maxNumSeqs: number): number[] {
  const sizes = [1, 2, 4, 8, 16, 24, 32, 48, 64, 80, 96, 112, 128];
  for (let size = 160; size < 2 * maxNumSeqs; size += size < 512 ? 32 : 128) sizes.push(size);
  return [...new Set(sizes.map((size) => Math.min(size, maxNumSeqs)))];
}

interface Bucket {
  inputs: DeviceInputs;
  context: DecodeAttention;
  sequence: Tensor;
  graph: CudaGraph | null;
}

class Launched implements LaunchedStep {
  constructor(
    readonly sequences: readonly Sequence[],
    readonly staged: StagedStep,
  ) {}

  collect(): Sampled[] {
    const { host } = this.staged;
    host.done.synchronizeSync();
    return this.sequences.map((_, row) => ({
      tokenId: host.tokenWords[2 * row]!,
      logProb: host.logProbView[row]!,
    }));
  }
}

/** Why this shape cannot be sampled on CUDA, or null when it can. */
export function cudaObstacle({ headDim, numHeads, numKvHeads }: ModelConfig): string | null {
  const group = numHeads / numKvHeads;
  if ([64, 128].includes(headDim) && group <= 16) return null;
  return `generation on CUDA has kernels for heads of 64 and 128 dimensions and up to 16 query heads per key-value head; this model has ${headDim} and ${group}`;
}

export class CudaRunner implements ModelRunner {
  private cache: KvCache | null = null;
  private inputs: DecodeInputs | null = null;
  /** What the last decode step sampled, by row. */
  private sampledTokens!: Tensor;
  private sampledLogProbs!: Tensor;
  private readonly buckets = new Map<number, Bucket>();
  private readonly sizes: readonly number[];
  private pool: GraphPool | null = null;

  constructor(
    private readonly model: CausalLM,
    private readonly options: CudaRunnerOptions,
  ) {
    if (model.dtype !== 'bfloat16')
      throw new TypeError(`generation on CUDA runs in bfloat16, the model is ${model.dtype}`);
    const obstacle = cudaObstacle(model.config);
    if (obstacle) throw new TypeError(obstacle);
    this.sizes = batchBuckets(options.maxNumSeqs);
  }

  allocate(): void {
    if (this.cache) return;
    const { numBlocks, blockSize, maxModelLength, maxNumSeqs } = this.options;
    const device = this.model.device;
    noGrad(() => {
      this.model.model.reservePositions(maxModelLength);
      this.cache = new KvCache(this.model.config, numBlocks, blockSize, device, 'bfloat16');
      const width = Math.ceil(maxModelLength / blockSize) + 1;
      this.inputs = new DecodeInputs(maxNumSeqs, width, blockSize, device);
      this.sampledTokens = zeros([maxNumSeqs], { dtype: 'int64', device }).keep();
      this.sampledLogProbs = zeros([maxNumSeqs], { dtype: 'float32', device }).keep();
    });
  }

  release(): void {
    if (!this.cache) return;
    for (const { graph, inputs, sequence, context } of this.buckets.values()) {
      graph?.dispose();
      context.dispose();
      sequence.dispose();
      for (const view of Object.values(inputs) as Tensor[]) view.dispose();
    }
    this.buckets.clear();
    this.pool = null;
    this.inputs?.dispose();
    this.sampledTokens.dispose();
    this.sampledLogProbs.dispose();
    this.cache.dispose();
    this.cache = null;
    this.inputs = null;
  }

  private ready(): { cache: KvCache; inputs: DecodeInputs } {
    if (!this.cache || !this.inputs) throw new Error('the key-value cache is asleep');
    return { cache: this.cache, inputs: this.inputs };
  }

  copyBlocks(copies: readonly BlockCopy[]): void {
    noGrad(() => this.ready().cache.copyBlocks(copies));
  }

  // --- Prompts --------------------------------------------------------------------------------------------------

  prefill(jobs: readonly PrefillJob[]): Sampled[][] {
    return noGrad(() => scope(() => this.prefillScoped(jobs)));
  }

  private prefillScoped(jobs: readonly PrefillJob[]): Sampled[][] {
    const { cache } = this.ready();
    const long = (values: ArrayLike<number>): Tensor =>
      tensor(Int32Array.from(values), { dtype: 'int64', device: cache.device });
    const ids: number[] = [];
    const last: number[] = [];
    const runs = jobs.map(({ sequences, start, end }): TokenRun => {
      const leader = sequences[0]!;
      for (let position = start; position < end; position++) ids.push(leader.tokens[position]!);
      last.push(ids.length - 1);
      const slots = Int32Array.from({ length: end }, (_, position) => this.slot(leader, position));
      return { start, end, slots };
    });
    const hidden = this.model.model.forward(long(ids), new PrefillAttention(cache, runs));
    const completed = jobs.map((_, k) => k).filter((k) => jobs[k]!.completes);
    const results: Sampled[][] = jobs.map(() => []);
    if (completed.length === 0) return results;
    const logits = this.model.logits(hidden.indexSelect(0, long(completed.map((k) => last[k]!))));
    // All samples of a prompt draw from the one row that was computed for it.
    const sequences = completed.flatMap((k) => jobs[k]!.sequences);
    const rows =
      sequences.length === completed.length
        ? logits
        : logits.indexSelect(0, long(completed.flatMap((k, row) => jobs[k]!.sequences.map(() => row))));
    const sampled = sampleTokens(rows, sequences, this.options.endTokens);
    let next = 0;
    for (const k of completed) for (const _ of jobs[k]!.sequences) results[k]!.push(sampled[next++]!);
    return results;
  }

  private slot(sequence: Sequence, position: number): number {
    const { blockSize } = this.options;
    return sequence.blocks[Math.floor(position / blockSize)]! * blockSize + (position % blockSize);
  }

  // --- Decoding -------------------------------------------------------------------------------------------------

  /** Penalties, bans and alternatives are worked out on the host, which must see the logits first. */
  canLaunch(sequences: readonly Sequence[], after: LaunchedStep | null): boolean {
    if (sequences.some(needsHost)) return false;
    // Capturing runs a step of its own and would overwrite what the one in flight leaves for the next.
    return after === null || this.buckets.get(this.sizeFor(sequences))?.graph != null;
  }

  private sizeFor(sequences: readonly Sequence[]): number {
    return this.sizes.find((size) => size >= sequences.length)!;
  }

  launch(sequences: readonly Sequence[], after: LaunchedStep | null): LaunchedStep {
    return noGrad(() =>
      scope(() => {
        const { inputs } = this.ready();
        const size = this.sizeFor(sequences);
        const bucket = this.bucket(size);
        bucket.graph ??= this.capture(size, bucket);
        const staged = inputs.stage(sequences, size, after ? (after as Launched).staged : null);
        bucket.graph.replay();
        inputs.fetch(staged, this.sampledTokens, this.sampledLogProbs);
        return new Launched(sequences, staged);
      }),
    );
  }

  decode(sequences: readonly Sequence[]): Sampled[] {
    if (this.canLaunch(sequences, null)) return this.launch(sequences, null).collect();
    return noGrad(() =>
      scope(() => {
        const size = this.sizeFor(sequences);
        const bucket = this.bucket(size);
        this.ready().inputs.stage(sequences, size, null);
        // The same shapes as in the graph, so that who asks for log-probs does not get other numbers.
        const hidden = this.model.model.forward(this.tokensOf(bucket), bucket.context);
        return sampleTokens(
          this.model.logits(hidden).narrow(0, 0, sequences.length),
          sequences,
          this.options.endTokens,
        );
      }),
    );
  }

  /** Captures the graphs of all batch sizes now instead of when each is first needed. */
  warmUp(): void {
    noGrad(() =>
      scope(() => {
        for (const size of [...this.sizes].reverse()) {
          const bucket = this.bucket(size);
          bucket.graph ??= this.capture(size, bucket);
        }
      }),
    );
  }

  private bucket(size: number): Bucket {
    let bucket = this.buckets.get(size);
    if (bucket) return bucket;
    const { cache, inputs } = this.ready();
    const views = inputs.views(size);
    const sequence = aten.arange(size, 'int32', null, cache.device).keep();
    const context = new DecodeAttention(
      cache,
      views.position,
      views.slot,
      this.options.maxModelLength,
      views.table,
      sequence,
      views.limit,
    );
    bucket = { inputs: views, context, sequence, graph: null };
    this.buckets.set(size, bucket);
    return bucket;
  }

  private tokensOf({ inputs }: Bucket): Tensor {
    return aten.verlet_next_tokens(inputs.token, inputs.source, this.sampledTokens);
  }

  private capture(size: number, bucket: Bucket): CudaGraph {
    const body = (): void => scope(() => this.step(size, bucket));
    // The warm-up must find rows that nobody uses: it would write into their blocks.
    this.ready().inputs.stage([], size, null);
    body();
    this.pool ??= newGraphPool();
    return CudaGraph.capture(body, { device: this.model.device, pool: this.pool });
  }

  private step(size: number, bucket: Bucket): void {
    const { temperature, topK, topP, minP, seed, stream, index } = bucket.inputs;
    const hidden = this.model.model.forward(this.tokensOf(bucket), bucket.context);
    const logits = this.model.logits(hidden);
    const [tokens, logProbs] = aten.verlet_sample(logits, temperature, topK, topP, minP, seed, stream, index);
    this.sampledTokens.narrow(0, 0, size).copy_(tokens);
    this.sampledLogProbs.narrow(0, 0, size).copy_(logProbs);
  }
}
