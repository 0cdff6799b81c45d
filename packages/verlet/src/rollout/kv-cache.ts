/** Keys and values of past tokens in blocks, per layer, and the attention contexts that read and write them. */
import { aten, empty, scope, type Tensor, tensor, zeros } from '@verlet/torch';
import { type AttentionContext, PackedAttention } from '../models/attention.js';
import type { ModelConfig } from '../models/config.js';

export class KvCache {
  /** Per layer, [blocks, blockSize, kvHeads, headDim]; the CPU's kernels want keys as [blocks, kvHeads, headDim, blockSize]. */
  readonly keys: Tensor[] = [];
  readonly values: Tensor[] = [];

  constructor(
    config: ModelConfig,
    readonly numBlocks: number,
    readonly blockSize: number,
    readonly device: string,
    readonly dtype: Tensor['dtype'],
  ) {
    const shape = [numBlocks, blockSize, config.numKvHeads, config.headDim];
    const keyShape = device === 'cpu' ? [numBlocks, config.numKvHeads, config.headDim, blockSize] : shape;
    for (let layer = 0; layer < config.numLayers; layer++) {
      // The CPU's kernels never look at what was not written.
      const make = device === 'cpu' ? empty : zeros;
      this.keys.push(make(keyShape, { dtype, device }).heldBy(this));
      this.values.push(make(shape, { dtype, device }).heldBy(this));
    }
  }

  static bytesPerBlock(config: ModelConfig, blockSize: number, elementBytes: number): number {
    return 2 * config.numLayers * blockSize * config.numKvHeads * config.headDim * elementBytes;
  }

  /** @param slots block * blockSize + offset of each token, [tokens] int64 */
  store(layer: number, slots: Tensor, k: Tensor, v: Tensor): void {
    aten.verlet_store_(this.keys[layer]!, this.values[layer]!, slots, k, v);
  }

  copyBlocks(copies: readonly { from: number; to: number }[]): void {
    if (copies.length === 0) return;
    scope(() => {
      const index = (blocks: number[]): Tensor =>
        tensor(Int32Array.from(blocks), { dtype: 'int64', device: this.device });
      const from = index(copies.map((copy) => copy.from));
      const to = index(copies.map((copy) => copy.to));
      for (const cache of [...this.keys, ...this.values]) cache.indexCopy_(0, to, cache.indexSelect(0, from));
    });
  }

  dispose(): void {
    for (const cache of [...this.keys, ...this.values]) cache.dispose();
  }
}

/** New tokens of sequences whose earlier tokens are in the cache: every token reads its sequence's blocks. */
export class CachedAttention implements AttentionContext {
  constructor(
    private readonly cache: KvCache,
    readonly positions: Tensor,
    readonly maxPosition: number,
    private readonly slots: Tensor,
    private readonly table: Tensor,
    private readonly sequence: Tensor,
    private readonly limit: Tensor,
  ) {}

  attend(layer: number, q: Tensor, k: Tensor, v: Tensor, window: number | null): Tensor {
    this.cache.store(layer, this.slots, k, v);
    const attended = aten.verlet_paged_attention(
      q,
      this.cache.keys[layer]!,
      this.cache.values[layer]!,
      this.table,
      this.sequence,
      this.limit,
      q.size(2) ** -0.5,
      window ?? 0,
    );
    return attended.flatten(1);
  }
}

/** Whole prompts that start from nothing: they see only themselves, so they attend packed and are stored on the way. */
export class FreshAttention implements AttentionContext {
  private readonly packed: PackedAttention;

  constructor(
    private readonly cache: KvCache,
    lengths: readonly number[],
    private readonly slots: Tensor,
  ) {
    this.packed = new PackedAttention(lengths, cache.device);
  }

  get positions(): Tensor {
    return this.packed.positions;
  }

  get maxPosition(): number {
    return this.packed.maxPosition;
  }

  attend(layer: number, q: Tensor, k: Tensor, v: Tensor, window: number | null): Tensor {
    this.cache.store(layer, this.slots, k, v);
    return this.packed.attend(layer, q, k, v, window);
  }

  dispose(): void {
    this.packed.dispose();
  }
}
