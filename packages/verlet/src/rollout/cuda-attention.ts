/** Attention contexts of the CUDA runner. Rotation, norm and the write into the cache are one kernel in both. */
import { aten, type Tensor, tensor } from '@verlet/torch';
import type { AttentionContext, Projection } from '../models/attention.js';
import type { KvCache } from './kv-cache.js';

abstract class ProjectedAttention implements AttentionContext {
  abstract readonly maxPosition: number;

  constructor(
    protected readonly cache: KvCache,
    /** [tokens] int32 */
    readonly positions: Tensor,
    /** Where each token's keys and values go, [tokens] int32; negative: nowhere. */
    protected readonly slots: Tensor,
  ) {}

  attend(): Tensor {
    throw new Error('this context takes projections whole');
  }

  protected store(layer: number, qkv: Tensor, { heads, cos, sin, qNorm, kNorm, eps }: Projection): void {
    const keys = this.cache.keys[layer]!;
    const values = this.cache.values[layer]!;
    aten.verlet_rope_cache_(qkv, cos, sin, this.positions, keys, values, this.slots, heads, qNorm, kNorm, eps);
  }

  abstract attendProjected(layer: number, qkv: Tensor, projection: Projection): Tensor;
}

/** One new token per sequence; everything it sees is in the cache. All shapes and addresses are fixed: graphs capture it. */
export class DecodeAttention extends ProjectedAttention {
  constructor(
    cache: KvCache,
    positions: Tensor,
    slots: Tensor,
    readonly maxPosition: number,
    private readonly table: Tensor,
    private readonly sequence: Tensor,
    private readonly limit: Tensor,
  ) {
    super(cache, positions, slots);
  }

  /** How the work is cut, made at the first layer and good for all of them. */
  private plan: readonly Tensor[] = [];

  attendProjected(layer: number, qkv: Tensor, projection: Projection): Tensor {
    if (layer === 0) {
      this.dispose();
      const plan = aten.verlet_attention_plan(this.limit, this.table.size(1) * this.cache.blockSize);
      this.plan = plan.map((part) => part.keep());
    }
    this.store(layer, qkv, projection);
    return aten
      .verlet_planned_attention(
        qkv.narrow(1, 0, projection.heads),
        this.cache.keys[layer]!,
        this.cache.values[layer]!,
        this.table,
        this.sequence,
        this.limit,
        this.plan[0]!,
        this.plan[1]!,
        qkv.size(2) ** -0.5,
        projection.window ?? 0,
      )
      .flatten(1);
  }

  dispose(): void {
    for (const part of this.plan) part.dispose();
    this.plan = [];
  }
}

/** A run of tokens of one sequence: positions start to end; what comes before start is in the cache. */
export interface TokenRun {
  start: number;
  end: number;
  /** Slots of positions 0 to end. */
  slots: Int32Array;
}

/** Runs laid end to end. Variable-length FlashAttention; keys of runs with a past are gathered from the cache. */
export class PrefillAttention extends ProjectedAttention {
  readonly maxPosition: number;
  private readonly longest: number;
  private readonly queries: Tensor;
  private readonly keys: Tensor;
  /** Slots of all keys, or null when every run starts its sequence. */
  private readonly past: Tensor | null;

  constructor(cache: KvCache, runs: readonly TokenRun[]) {
    const device = cache.device;
    const positions: number[] = [];
    const slots: number[] = [];
    const queryEnds = [0];
    const keyEnds = [0];
    for (const { start, end, slots: all } of runs) {
      for (let position = start; position < end; position++) {
        positions.push(position);
        slots.push(all[position]!);
      }
      queryEnds.push(positions.length);
      keyEnds.push(keyEnds[keyEnds.length - 1]! + end);
    }
    const int32 = (values: ArrayLike<number>): Tensor => tensor(Int32Array.from(values), { device });
    super(cache, int32(positions), int32(slots));
    this.maxPosition = Math.max(...runs.map((run) => run.end));
    this.longest = Math.max(...runs.map((run) => run.end - run.start));
    this.queries = int32(queryEnds);
    this.keys = int32(keyEnds);
    this.past = runs.some((run) => run.start > 0)
      ? int32(runs.flatMap((run) => Array.from(run.slots.subarray(0, run.end))))
      : null;
  }

  attendProjected(layer: number, qkv: Tensor, projection: Projection): Tensor {
    this.store(layer, qkv, projection);
    const { heads, window } = projection;
    const kvHeads = (qkv.size(1) - heads) / 2;
    const fromCache = (all: Tensor): Tensor => all.flatten(0, 1).indexSelect(0, this.past!);
    const k = this.past ? fromCache(this.cache.keys[layer]!) : qkv.narrow(1, heads, kvHeads);
    const v = this.past ? fromCache(this.cache.values[layer]!) : qkv.narrow(1, heads + kvHeads, kvHeads);
    const [output] = aten._flash_attention_forward(
      qkv.narrow(1, 0, heads),
      k,
      v,
      this.queries,
      this.keys,
      this.longest,
      this.maxPosition,
      0,
      true,
      false,
      qkv.size(2) ** -0.5,
      window === null ? null : window - 1,
      window === null ? null : 0,
    );
    return output.flatten(1);
  }
}
