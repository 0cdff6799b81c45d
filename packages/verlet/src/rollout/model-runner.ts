/** Runs the model for a schedule and samples. The CPU's; CUDA has its own with captured graphs. */
import { aten, noGrad, scope, type Tensor, tensor } from '@verlet/torch';
import type { CausalLM } from '../models/transformer.js';
import type { ActivationTape } from './activation-tape.js';
import { CachedAttention, FreshAttention, KvCache } from './kv-cache.js';
import { type DecodeBatch, PackedDecoder } from './packed-decoder.js';
import { type Sampled, SamplingColumns, sampleTokens } from './sampler.js';
import type { BlockCopy, PrefillJob } from './scheduler.js';
import type { Sequence } from './sequence.js';

/** What the engine asks of whatever executes the model. */
export interface ModelRunner {
  /** Computes the jobs' tokens; for a job that completes, one sampled token per sequence, in order. */
  prefill(jobs: readonly PrefillJob[]): Sampled[][];
  /** One token for each sequence. */
  decode(sequences: readonly Sequence[]): Sampled[];
  /** Whether several tokens in a row can be had for these in one call. */
  canDecodeMany?(sequences: readonly Sequence[]): boolean;
  /** Up to `steps` tokens for each, fewer for who ends before; there is room in the cache for them. */
  decodeMany?(sequences: readonly Sequence[], steps: number): SampledRows;
  /** Whether a step over these can be launched, right behind a step in flight when there is one. */
  canLaunch?(sequences: readonly Sequence[], after: LaunchedStep | null): boolean;
  /** Starts a decode step without waiting for it. With `after`, every sequence's last token is what that step samples. */
  launch?(sequences: readonly Sequence[], after: LaunchedStep | null): LaunchedStep;
  copyBlocks(copies: readonly BlockCopy[]): void;
  /** A sequence is complete and about to lose its blocks. */
  completed?(sequence: Sequence): void;
  /** The model's weights are others now. */
  weightsChanged?(): void;
  /** Frees the cache; `allocate` makes it anew. */
  release(): void;
  allocate(): void;
}

/** Tokens of several steps, [sequences, steps]; -1 behind a sequence's end. */
export interface SampledRows {
  steps: number;
  tokenIds: Int32Array;
  logProbs: Float32Array;
}

/** A decode step that the device is working on. */
export interface LaunchedStep {
  readonly sequences: readonly Sequence[];
  /** Waits for it; one token for each sequence. */
  collect(): Sampled[];
}

/** The one-call decoder attends token by token: good for prompts whose keys stay in the cache of a core. */
const longestInOneCall = 512;

type PrefillWay = 'decoder' | 'packed' | 'cached';

export class EagerRunner implements ModelRunner {
  private cache: KvCache | null = null;
  /** Made when it is first needed; undefined while it is not known whether the model has one. */
  private packed: PackedDecoder | null | undefined;
  private columns: SamplingColumns | null = null;

  constructor(
    private readonly model: CausalLM,
    private readonly numBlocks: number,
    private readonly blockSize: number,
    private readonly endTokens: readonly number[],
    private readonly tape: ActivationTape | null = null,
  ) {}

  allocate(): void {
    // The CPU kernel reads float32; a narrower cache would only be widened again.
    this.cache ??= new KvCache(this.model.config, this.numBlocks, this.blockSize, this.model.device, 'float32');
  }

  release(): void {
    this.cache?.dispose();
    this.cache = null;
    this.columns?.dispose();
    this.columns = null;
    this.packed?.dispose();
    this.packed = undefined;
  }

  weightsChanged(): void {
    this.packed?.dispose();
    this.packed = undefined;
    this.tape?.clear();
  }

  completed(sequence: Sequence): void {
    this.tape?.remember(sequence.tokens, (position) => this.slot(sequence, position));
  }

  /** Where what is computed for these slots is written down; only the one-call decoder does so. */
  private record(slots: ArrayLike<number>, inOneCall: boolean): DecodeBatch['record'] {
    return this.tape?.take(slots, this.numBlocks * this.blockSize, inOneCall) ?? null;
  }

  copyBlocks(copies: readonly BlockCopy[]): void {
    this.tape?.copyBlocks(copies, this.blockSize);
    noGrad(() => this.ready().copyBlocks(copies));
  }

  private ready(): KvCache {
    if (!this.cache) throw new Error('the key-value cache is asleep');
    return this.cache;
  }

  private slot(sequence: Sequence, position: number): number {
    return sequence.blocks[Math.floor(position / this.blockSize)]! * this.blockSize + (position % this.blockSize);
  }

  prefill(jobs: readonly PrefillJob[]): Sampled[][] {
    const results = new Map<PrefillJob, Sampled[]>();
    const isFresh = (job: PrefillJob): boolean => job.start === 0 && job.completes;
    const wayOf = (job: PrefillJob): PrefillWay => {
      if (this.decoder() && job.end <= longestInOneCall) return 'decoder';
      return isFresh(job) ? 'packed' : 'cached';
    };
    for (const way of ['decoder', 'packed', 'cached'] as const) {
      const group = jobs.filter((job) => wayOf(job) === way);
      if (group.length > 0) this.prefillGroup(group, way, results);
    }
    return jobs.map((job) => results.get(job) ?? []);
  }

  /** The jobs must all be ones that the way can take: whole prompts only when they are to attend packed. */
  private prefillGroup(jobs: readonly PrefillJob[], way: PrefillWay, results: Map<PrefillJob, Sampled[]>): void {
    noGrad(() =>
      scope(() => {
        const completed = jobs.filter((job) => job.completes);
        const logits = this.logitsOfJobs(jobs, way);
        if (completed.length === 0) return;
        // All samples of a prompt draw from the one row that was computed for it.
        const rows = completed.flatMap((job, row) => job.sequences.map(() => row));
        const sequences = completed.flatMap((job) => job.sequences);
        const sampled = sampleTokens(logits.indexSelect(0, this.long(rows)), sequences, this.endTokens);
        let next = 0;
        for (const job of completed) {
          results.set(job, sampled.slice(next, next + job.sequences.length));
          next += job.sequences.length;
        }
      }),
    );
  }

  /** Logits at the end of every job that completes, [completed, vocabulary]. */
  private logitsOfJobs(jobs: readonly PrefillJob[], way: 'decoder' | 'packed' | 'cached'): Tensor {
    const tokens: number[] = [];
    const places: number[] = [];
    const positions: number[] = [];
    const rows: number[] = [];
    const last: number[] = [];
    for (const [row, { sequences, start, end, completes }] of jobs.entries()) {
      const leader = sequences[0]!;
      for (let position = start; position < end; position++) {
        tokens.push(leader.tokens[position]!);
        places.push(this.slot(leader, position));
        positions.push(position);
        rows.push(row);
      }
      if (completes) last.push(tokens.length - 1);
    }
    const [ids, slots, wanted] = [this.long(tokens), this.long(places), this.long(last)];
    const record = this.record(places, way === 'decoder');
    if (way === 'packed') {
      const context = new FreshAttention(
        this.ready(),
        jobs.map((job) => job.end),
        slots,
      );
      const hidden = this.model.model.forward(ids, context, wanted);
      context.dispose();
      return this.model.logits(hidden);
    }
    const batch: DecodeBatch = {
      ids,
      positions: this.long(positions),
      maxPosition: Math.max(...jobs.map((job) => job.end)),
      slots,
      sequences: tensor(Int32Array.from(rows)),
      table: this.table(jobs.map((job) => job.sequences[0]!)),
      wanted,
      record,
    };
    return way === 'decoder' ? this.decoder()!.logits(batch, this.ready()) : this.layered(batch);
  }

  decode(sequences: readonly Sequence[]): Sampled[] {
    return noGrad(() =>
      scope(() => {
        const rows = sequences.length;
        const words = new Int32Array(3 * rows);
        let maxPosition = 0;
        for (let row = 0; row < rows; row++) {
          const sequence = sequences[row]!;
          const position = sequence.tokens.length - 1;
          words[row] = sequence.tokens[position]!;
          words[rows + row] = position;
          words[2 * rows + row] = this.slot(sequence, position);
          maxPosition = Math.max(maxPosition, position + 1);
        }
        const [ids, positions, slots] = tensor(words, { dtype: 'int64', shape: [3, rows] }).unbind(0) as [
          Tensor,
          Tensor,
          Tensor,
        ];
        const table = this.table(sequences);
        const every = aten.arange(rows, 'int64');
        const decoder = this.decoder();
        const record = this.record(words.subarray(2 * rows), decoder !== null);
        const batch = {
          ids,
          positions,
          maxPosition,
          slots,
          sequences: every.to('int32'),
          table,
          wanted: every,
          record,
        };
        const logits = decoder?.logits(batch, this.ready()) ?? this.layered(batch);
        return sampleTokens(logits, sequences, this.endTokens, this.columnsOf(sequences));
      }),
    );
  }

  canDecodeMany(sequences: readonly Sequence[]): boolean {
    return this.decoder() !== null && this.columnsOf(sequences).isUntouched;
  }

  decodeMany(sequences: readonly Sequence[], steps: number): SampledRows {
    return noGrad(() =>
      scope(() => {
        const rows = sequences.length;
        const words = new Int32Array(4 * rows);
        // Nothing is computed for a sequence behind its last token.
        const slots = new Int32Array(steps * rows).fill(-1);
        let maxPosition = 0;
        for (let row = 0; row < rows; row++) {
          const sequence = sequences[row]!;
          const position = sequence.tokens.length - 1;
          const limit = Math.min(steps, sequence.maxTokens - sequence.numOutput);
          words[row] = sequence.tokens[position]!;
          words[rows + row] = position;
          words[2 * rows + row] = sequence.numOutput;
          words[3 * rows + row] = limit;
          for (let step = 0; step < limit; step++) slots[step * rows + row] = this.slot(sequence, position + step);
          maxPosition = Math.max(maxPosition, position + limit);
        }
        const [ids, positions, drawn, limits] = tensor(words, { dtype: 'int64', shape: [4, rows] }).unbind(0) as [
          Tensor,
          Tensor,
          Tensor,
          Tensor,
        ];
        const columns = this.columnsOf(sequences);
        const record = this.record(slots, true);
        const table = this.table(sequences);
        const batch = { ids, positions, drawn, limits, maxPosition, table, steps, columns, record };
        const [tokens, logProbs] = this.decoder()!.decode(batch, this.ready());
        return { steps, tokenIds: tokens.toInt32Array(), logProbs: logProbs.toFloat32Array() };
      }),
    );
  }

  /** Mostly the same sequences are decoded step after step. */
  private columnsOf(sequences: readonly Sequence[]): SamplingColumns {
    if (this.columns?.areOf(sequences)) return this.columns;
    this.columns?.dispose();
    this.columns = new SamplingColumns(sequences, this.model.device, this.endTokens);
    return this.columns;
  }

  private decoder(): PackedDecoder | null {
    if (this.packed === undefined) this.packed = PackedDecoder.of(this.model);
    return this.packed;
  }

  /** The same as the decoder's, layer by layer. */
  private layered({ ids, positions, maxPosition, slots, sequences, table, wanted }: DecodeBatch): Tensor {
    const limits = positions.add(1).to('int32');
    const context = new CachedAttention(this.ready(), positions, maxPosition, slots, table, sequences, limits);
    return this.model.logits(this.model.model.forward(ids, context, wanted));
  }

  /** Block numbers of each sequence, [sequences, blocks] int32. */
  private table(sequences: readonly Sequence[]): Tensor {
    const width = Math.max(1, ...sequences.map((sequence) => sequence.blocks.length));
    const table = new Int32Array(sequences.length * width);
    for (const [row, sequence] of sequences.entries()) table.set(sequence.blocks, row * width);
    return tensor(table, { shape: [sequences.length, width] });
  }

  private long(values: readonly number[]): Tensor {
    return tensor(Int32Array.from(values), { dtype: 'int64' });
  }
}
