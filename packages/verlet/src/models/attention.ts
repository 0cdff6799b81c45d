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
 *
 * A sequence may go on from another one (many answers to one prompt, which is there once): it sees that one whole before
 * itself, and its positions go on.
 */
export class PackedAttention implements AttentionContext {
  readonly positions: Tensor;
  readonly maxPosition: number;
  private readonly tokens: number;
  private readonly cumulative: Tensor | null = null;
  private readonly shared: SharedPrefixes | null = null;

  /** @param prefixes for each sequence the number of the one that it goes on from, or -1; none when no sequence does */
  constructor(
    readonly lengths: readonly number[],
    device = 'cpu',
    readonly prefixes: readonly number[] = [],
  ) {
    this.tokens = sum(lengths);
    const positions = new Int32Array(this.tokens);
    let at = 0;
    let longest = 1;
    for (const [sequence, length] of lengths.entries()) {
      const first = lengths[prefixes[sequence] ?? -1] ?? 0;
      for (let k = 0; k < length; k++) positions[at++] = first + k;
      longest = Math.max(longest, first + length);
    }
    this.maxPosition = longest;
    this.positions = tensor(positions, { dtype: 'int64', device }).keep();
    if (!device.startsWith('cuda')) return;
    this.cumulative = startsOf(lengths, device);
    if (prefixes.some((prefix) => prefix >= 0)) this.shared = new SharedPrefixes(lengths, prefixes, device);
  }

  attend(_layer: number, q: Tensor, k: Tensor, v: Tensor, window: number | null): Tensor {
    const headDim = q.size(2);
    // A window no shorter than the longest sequence hides nothing.
    const narrow = window === null || window >= this.maxPosition ? null : window;
    const output = this.shared
      ? this.shared.attend(q, k, v, this.cumulative!, narrow)
      : this.cumulative
        ? this.flash(q, k, v, narrow)
        : aten.verlet_packed_attention(
            wide(q),
            wide(k),
            wide(v),
            this.lengths,
            headDim ** -0.5,
            narrow ?? 0,
            this.prefixes,
          )[0];
    const typed = output.dtype === q.dtype ? output : output.to(q.dtype);
    return typed.reshape(this.tokens, q.size(1) * headDim);
  }

  private flash(q: Tensor, k: Tensor, v: Tensor, window: number | null): Tensor {
    // Sequences of one length are a batch, which FlashAttention takes without looking where each of them ends.
    const isBatch = this.tokens > 0 && this.lengths.every((length) => length === this.maxPosition);
    const shaped = (x: Tensor): Tensor => (isBatch ? x.view(this.lengths.length, -1, x.size(1), x.size(2)) : x);
    const starts = isBatch ? null : this.cumulative;
    const [output] = aten._flash_attention_forward(
      shaped(q),
      shaped(k),
      shaped(v),
      starts,
      starts,
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
    this.shared?.dispose();
  }
}

/** On CUDA prompts come first, then the answers in the order of their prompts, then the rest: each part is then one block of memory. */
class SharedPrefixes {
  private readonly answerStarts: Tensor;
  private readonly promptStarts: Tensor;
  private readonly longest: [sequence: number, answers: number, prompt: number];
  private readonly prompts: number;
  private readonly answers: number;

  constructor(lengths: readonly number[], prefixes: readonly number[], device: string) {
    const count = Math.max(...prefixes) + 1;
    const answers = new Array<number>(count).fill(0);
    const end = prefixes.findLastIndex((prefix) => prefix >= 0) + 1;
    for (let sequence = 0; sequence < end; sequence++) {
      const prefix = prefixes[sequence]!;
      const isInOrder = sequence < count ? prefix < 0 : prefix >= Math.max(0, prefixes[sequence - 1]!);
      if (!isInOrder)
        throw new RangeError(
          'on CUDA sequences are laid out as prompts, answers in the order of their prompts, others',
        );
      if (prefix >= 0) answers[prefix]! += lengths[sequence]!;
    }
    const prompts = lengths.slice(0, count);
    if (prompts.includes(0) || answers.includes(0))
      throw new RangeError('on CUDA no shared prompt may be empty, and each must have answers');
    this.prompts = sum(prompts);
    this.answers = sum(answers);
    this.longest = [Math.max(...lengths), Math.max(...answers), Math.max(...prompts)];
    this.answerStarts = startsOf(answers, device);
    this.promptStarts = startsOf(prompts, device);
  }

  attend(q: Tensor, k: Tensor, v: Tensor, starts: Tensor, window: number | null): Tensor {
    if (window !== null) throw new RangeError(`on CUDA prompts cannot be shared under a window of ${window} tokens`);
    return aten.verlet_shared_prefix_attention(
      q,
      k,
      v,
      starts,
      this.answerStarts,
      this.promptStarts,
      this.longest,
      this.prompts,
      this.answers,
      q.size(2) ** -0.5,
    );
  }

  dispose(): void {
    this.answerStarts.dispose();
    this.promptStarts.dispose();
  }
}

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);

/** Where each sequence begins, and the end, int32 on the device. */
function startsOf(lengths: readonly number[], device: string): Tensor {
  const starts = new Int32Array(lengths.length + 1);
  for (const [k, length] of lengths.entries()) starts[k + 1] = starts[k]! + length;
  return tensor(starts, { device }).keep();
}

/** The CPU's kernel is float32. */
function wide(x: Tensor): Tensor {
  return x.dtype === 'float32' ? x : x.to('float32');
}
