/**
 * How tokens see each other. A layer makes q, k and v and asks the context for the rest, so that the same module objects
 * serve packed training, prefill and cached decoding.
 */
import { aten, cat, scope, type Tensor, tensor } from '@verlet/torch';

export interface AttentionContext {
  /** Position of each token in its own sequence, [tokens] int64. */
  readonly positions: Tensor;
  /** One more than the largest position. */
  readonly maxPosition: number;
  /**
   * @param q [tokens, heads, headDim], rotated
   * @param k [tokens, kvHeads, headDim], rotated
   * @param v [tokens, kvHeads, headDim]
   * @returns [tokens, heads * headDim]
   */
  attend(layer: number, q: Tensor, k: Tensor, v: Tensor, window: number | null): Tensor;
}

interface Group {
  rows: number;
  length: number;
  /** Packed index of each padded place; null when the group is a plain run of the packed tokens. */
  gather: Tensor | null;
  start: number;
}

/** Sequences whose padding would waste no more than this share run in one padded call on the CPU. */
const tolerance = 1.25;

/**
 * Sequences laid end to end, each seeing itself only, causally. On CUDA one variable-length FlashAttention call; on the CPU,
 * which has none, sequences of similar length run together padded on the right: under a causal mask no real token sees the
 * padding, so the result is exact.
 */
export class PackedAttention implements AttentionContext {
  readonly positions: Tensor;
  readonly maxPosition: number;
  private readonly groups: Group[] = [];
  private readonly order: Tensor | null;
  private readonly cumulative: Tensor | null;
  private readonly tokens: number;

  constructor(
    readonly lengths: readonly number[],
    private readonly device = 'cpu',
    private readonly useFlash = device.startsWith('cuda'),
  ) {
    this.tokens = lengths.reduce((sum, length) => sum + length, 0);
    this.maxPosition = Math.max(1, ...lengths);
    const positions = new Int32Array(this.tokens);
    const starts: number[] = [];
    let at = 0;
    for (const length of lengths) {
      starts.push(at);
      for (let k = 0; k < length; k++) positions[at++] = k;
    }
    this.positions = tensor(positions, { dtype: 'int64', device }).keep();
    if (this.useFlash) {
      this.cumulative = tensor(Int32Array.from([...starts, this.tokens]), { device }).keep();
      this.order = null;
    } else {
      this.cumulative = null;
      this.order = this.planGroups(starts);
    }
  }

  /** Fills `groups`; returns, for each packed token, its place in the groups laid end to end, or null when it is the same. */
  private planGroups(starts: readonly number[]): Tensor | null {
    const byLength = this.lengths.map((_, k) => k).filter((k) => this.lengths[k]! > 0);
    const uniform = byLength.every((k) => this.lengths[k] === this.lengths[byLength[0]!]);
    if (uniform) {
      if (byLength.length)
        this.groups.push({ rows: byLength.length, length: this.lengths[byLength[0]!]!, gather: null, start: 0 });
      return null;
    }
    byLength.sort((a, b) => this.lengths[b]! - this.lengths[a]!);
    const place = new Int32Array(this.tokens);
    let next = 0;
    for (let from = 0; from < byLength.length; ) {
      const length = this.lengths[byLength[from]!]!;
      let to = from;
      let real = 0;
      while (
        to < byLength.length &&
        (to - from + 1) * length <= tolerance * (real + this.lengths[byLength[to]!]!) + 2 * length
      ) {
        real += this.lengths[byLength[to]!]!;
        to++;
      }
      const gather = new Int32Array((to - from) * length);
      for (let row = from; row < to; row++) {
        const sequence = byLength[row]!;
        for (let k = 0; k < this.lengths[sequence]!; k++) {
          gather[(row - from) * length + k] = starts[sequence]! + k;
          place[starts[sequence]! + k] = next + (row - from) * length + k;
        }
      }
      this.groups.push({
        rows: to - from,
        length,
        gather: tensor(gather, { dtype: 'int64', device: this.device }).keep(),
        start: 0,
      });
      next += gather.length;
      from = to;
    }
    return tensor(place, { dtype: 'int64', device: this.device }).keep();
  }

  attend(_layer: number, q: Tensor, k: Tensor, v: Tensor, window: number | null): Tensor {
    const heads = q.size(1);
    const headDim = q.size(2);
    if (this.useFlash) {
      const [output] = aten._flash_attention_forward(
        q,
        k,
        v,
        this.cumulative,
        this.cumulative,
        this.maxPosition,
        this.maxPosition,
        0,
        true,
        false,
        headDim ** -0.5,
        window === null ? null : window - 1,
        window === null ? null : 0,
      );
      return output.reshape(this.tokens, heads * headDim);
    }
    const outputs = this.groups.map(({ rows, length, gather }) => {
      const arrange = (x: Tensor): Tensor =>
        (gather ? x.indexSelect(0, gather) : x).reshape(rows, length, x.size(1), headDim).transpose(1, 2);
      const mask = window !== null && length > window ? windowMask(length, window, this.device) : null;
      const output = aten.scaled_dot_product_attention(
        arrange(q),
        arrange(k),
        arrange(v),
        mask,
        0,
        mask === null,
        null,
        q.size(1) !== k.size(1),
      );
      return output.transpose(1, 2).reshape(rows * length, heads * headDim);
    });
    const joined = outputs.length === 1 ? outputs[0]! : cat(outputs);
    return this.order ? joined.indexSelect(0, this.order) : joined;
  }

  dispose(): void {
    this.positions.dispose();
    this.order?.dispose();
    this.cumulative?.dispose();
    for (const group of this.groups) group.gather?.dispose();
  }
}

/** Causal, and no further back than the window; true where a query may look. */
export function windowMask(length: number, window: number, device: string): Tensor {
  return scope(() => {
    const index = aten.arange(length, 'int64', null, device);
    const distance = index.unsqueeze(1).sub(index.unsqueeze(0));
    return distance.ge(0).logicalAnd(distance.lt(window));
  });
}
