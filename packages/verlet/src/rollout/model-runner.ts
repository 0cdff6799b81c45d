/** Runs the model for a schedule and samples. The CPU's; CUDA has its own with captured graphs. */
import { noGrad, scope, type Tensor, tensor } from '@verlet/torch';
import type { CausalLM } from '../models/transformer.js';
import { CachedAttention, FreshAttention, KvCache } from './kv-cache.js';
import { type Sampled, sampleTokens } from './sampler.js';
import type { BlockCopy, PrefillJob } from './scheduler.js';
import type { Sequence } from './sequence.js';

/** What the engine asks of whatever executes the model. */
export interface ModelRunner {
  /** Computes the jobs' tokens; for a job that completes, one sampled token per sequence, in order. */
  prefill(jobs: readonly PrefillJob[]): Sampled[][];
  /** One token for each sequence. */
  decode(sequences: readonly Sequence[]): Sampled[];
  /** Whether a step over these can be launched, right behind a step in flight when there is one. */
  canLaunch?(sequences: readonly Sequence[], after: LaunchedStep | null): boolean;
  /** Starts a decode step without waiting for it. With `after`, every sequence's last token is what that step samples. */
  launch?(sequences: readonly Sequence[], after: LaunchedStep | null): LaunchedStep;
  copyBlocks(copies: readonly BlockCopy[]): void;
  /** Frees the cache; `allocate` makes it anew. */
  release(): void;
  allocate(): void;
}

/** A decode step that the device is working on. */
export interface LaunchedStep {
  readonly sequences: readonly Sequence[];
  /** Waits for it; one token for each sequence. */
  collect(): Sampled[];
}

export class EagerRunner implements ModelRunner {
  private cache: KvCache | null = null;

  constructor(
    private readonly model: CausalLM,
    private readonly numBlocks: number,
    private readonly blockSize: number,
    private readonly endTokens: readonly number[],
  ) {}

  allocate(): void {
    // The CPU kernel reads float32; a narrower cache would only be widened again.
    this.cache ??= new KvCache(this.model.config, this.numBlocks, this.blockSize, this.model.device, 'float32');
  }

  release(): void {
    this.cache?.dispose();
    this.cache = null;
  }

  copyBlocks(copies: readonly BlockCopy[]): void {
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
    for (const group of [jobs.filter(isFresh), jobs.filter((job) => !isFresh(job))])
      if (group.length > 0) this.prefillGroup(group, isFresh(group[0]!), results);
    return jobs.map((job) => results.get(job) ?? []);
  }

  private prefillGroup(jobs: readonly PrefillJob[], fresh: boolean, results: Map<PrefillJob, Sampled[]>): void {
    noGrad(() =>
      scope(() => {
        const ids: number[] = [];
        const slots: number[] = [];
        const positions: number[] = [];
        const rows: number[] = [];
        const last: number[] = [];
        for (const [row, { sequences, start, end }] of jobs.entries()) {
          const leader = sequences[0]!;
          for (let position = start; position < end; position++) {
            ids.push(leader.tokens[position]!);
            slots.push(this.slot(leader, position));
            positions.push(position);
            rows.push(row);
          }
          last.push(ids.length - 1);
        }
        const context = fresh
          ? new FreshAttention(
              this.ready(),
              jobs.map((job) => job.end),
              this.long(slots),
            )
          : this.cached(
              jobs.map((job) => job.sequences[0]!),
              positions,
              rows,
              slots,
            );
        const hidden = this.model.model.forward(this.long(ids), context);
        if (context instanceof FreshAttention) context.dispose();
        const completed = jobs.map((_, k) => k).filter((k) => jobs[k]!.completes);
        if (completed.length === 0) return;
        const sequences = completed.flatMap((k) => jobs[k]!.sequences);
        const logits = this.model.logits(hidden.indexSelect(0, this.long(completed.map((k) => last[k]!))));
        // All samples of a prompt draw from the one row that was computed for it.
        const expanded = logits.indexSelect(
          0,
          this.long(completed.flatMap((k, row) => jobs[k]!.sequences.map(() => row))),
        );
        const sampled = sampleTokens(expanded, sequences, this.endTokens);
        let next = 0;
        for (const k of completed) {
          const count = jobs[k]!.sequences.length;
          results.set(jobs[k]!, sampled.slice(next, next + count));
          next += count;
        }
      }),
    );
  }

  decode(sequences: readonly Sequence[]): Sampled[] {
    return noGrad(() =>
      scope(() => {
        const positions = sequences.map((sequence) => sequence.tokens.length - 1);
        const slots = sequences.map((sequence, k) => this.slot(sequence, positions[k]!));
        const rows = sequences.map((_, k) => k);
        const ids = this.long(sequences.map((sequence, k) => sequence.tokens[positions[k]!]!));
        const hidden = this.model.model.forward(ids, this.cached(sequences, positions, rows, slots));
        return sampleTokens(this.model.logits(hidden), sequences, this.endTokens);
      }),
    );
  }

  private cached(
    sequences: readonly Sequence[],
    positions: readonly number[],
    rows: readonly number[],
    slots: readonly number[],
  ): CachedAttention {
    const width = Math.max(1, ...sequences.map((sequence) => sequence.blocks.length));
    const table = new Int32Array(sequences.length * width);
    for (const [row, sequence] of sequences.entries()) table.set(sequence.blocks, row * width);
    let furthest = 0;
    for (const position of positions) furthest = Math.max(furthest, position);
    return new CachedAttention(
      this.ready(),
      this.long(positions),
      furthest + 1,
      this.long(slots),
      tensor(table, { shape: [sequences.length, width] }),
      tensor(Int32Array.from(rows)),
      tensor(Int32Array.from(positions, (position) => position + 1)),
    );
  }

  private long(values: readonly number[]): Tensor {
    return tensor(Int32Array.from(values), { dtype: 'int64' });
  }
}
