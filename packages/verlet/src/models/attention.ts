/**
 * How tokens see each other. A layer makes q, k and v and asks the context for the rest, so that the same module objects
 * serve packed training, prefill and cached decoding.
 */
import { aten, type Tensor, tensor } from '@verlet/torch';

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
  /**
   * Where it is there, it is asked instead of `attend`: it takes the projection as it is, norms and rotates queries and keys
   * in place, and stores keys and values on the way. For passes without gradients.
   *
   * @param qkv [tokens, heads + 2 kvHeads, headDim]
   * @returns [tokens, heads * headDim]
   */
  attendProjected?(layer: number, qkv: Tensor, projection: Projection): Tensor;
}

/** What stands between a layer's projection and its attention. */
export interface Projection {
  heads: number;
  /** Rotary tables, [positions, headDim]. */
  cos: Tensor;
  sin: Tensor;
  /** Weights of the norm over each head of q and k, where the model has them. */
  qNorm: Tensor | null;
  kNorm: Tensor | null;
  eps: number;
  window: number | null;
}

/**
 * Sequences laid end to end, each seeing itself only, causally. One call for all of them: variable-length FlashAttention on
 * CUDA, our own kernel on the CPU, where libtorch has none for packed tokens.
 */
export class PackedAttention implements AttentionContext {
  readonly positions: Tensor;
  readonly maxPosition: number;
  private readonly cumulative: Tensor | null;
  private readonly tokens: number;

  constructor(
    readonly lengths: readonly number[],
    device = 'cpu',
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
    this.cumulative = this.useFlash ? tensor(Int32Array.from([...starts, this.tokens]), { device }).keep() : null;
  }

  attend(_layer: number, q: Tensor, k: Tensor, v: Tensor, window: number | null): Tensor {
    const headDim = q.size(2);
    const output = this.useFlash
      ? this.flash(q, k, v, window)
      : aten.verlet_packed_attention(
          wide(q),
          wide(k),
          wide(v),
          this.lengths,
          headDim ** -0.5,
          // A window no shorter than the longest sequence hides nothing.
          window === null || window >= this.maxPosition ? 0 : window,
        )[0];
    const typed = output.dtype === q.dtype ? output : output.to(q.dtype);
    return typed.reshape(this.tokens, q.size(1) * headDim);
  }

  private flash(q: Tensor, k: Tensor, v: Tensor, window: number | null): Tensor {
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
      q.size(2) ** -0.5,
      window === null ? null : window - 1,
      window === null ? null : 0,
    );
    return output;
  }

  dispose(): void {
    this.positions.dispose();
    this.cumulative?.dispose();
  }
}

/** The CPU's kernel is float32. */
function wide(x: Tensor): Tensor {
  return x.dtype === 'float32' ? x : x.to('float32');
}
