/**
 * The end of a language model: project hidden states to the vocabulary and take the log-probability of given tokens, in
 * chunks of tokens, so that the logits of a whole batch never exist (16k tokens x 152k vocabulary x float32 is 10 GB).
 * The gradient is written out by hand; it needs the logits again, which are kept when they are small and computed once more
 * when they are not.
 */
import { noGrad } from '../autograd.js';
import { cat, empty, tensor } from '../create.js';
import { cudaMemory } from '../cuda.js';
import * as aten from '../generated/ops.js';
import { scope } from '../scope.js';
import type { Tensor } from '../tensor.js';
import type { Parameter } from './parameter.js';

export interface LogProbHeadOptions {
  /** Logits are divided by it before the softmax. */
  temperature?: number;
  /** Tokens per chunk; by default as many as keep a chunk of logits near 256 MB. */
  chunkTokens?: number;
  /** Compute the entropy of each distribution too. */
  entropy?: boolean;
  /** Also sum(p^2) per token, for baselines that weigh tokens by it. */
  sumPiSquared?: boolean;
  /** Further tokens per position whose log-probability is wanted, [tokens, count] int64. */
  alternatives?: Tensor;
  /** Keep what backward needs. Off for scoring only. */
  train?: boolean;
  /**
   * Bytes of logits that may be kept between forward and backward; those of the chunks beyond that are computed again. Default
   * 256 MiB, on CUDA an eighth of what is free.
   */
  keepBytes?: number;
}

export interface HeadResult {
  /** [tokens] float32 */
  logProbs: Tensor;
  /** [tokens] float32, when asked for. */
  entropy: Tensor | null;
  sumPiSquared: Tensor | null;
  /** [tokens, count] float32, when asked for. */
  alternatives: Tensor | null;
}

interface HeadGradients {
  logProbs: Tensor;
  entropy: Tensor | null;
  alternatives: Tensor | null;
}

const chunkBytes = 256 * 2 ** 20;
/** On CUDA logits stay in the model's dtype, and larger chunks mean fewer sums into the weight's gradient. */
const cudaChunkBytes = 2 ** 30;

/** Tokens whose logits are computed at a time. */
export function defaultChunk(weight: Tensor): number {
  const onCuda = weight.device.startsWith('cuda');
  const rowBytes = (weight.size(0) * weight.nbytes) / weight.numel;
  const tokens = Math.max(64, Math.floor((onCuda ? cudaChunkBytes : chunkBytes) / rowBytes));
  // Matrix products on a GPU come in tiles.
  return onCuda && tokens > 256 ? tokens - (tokens % 256) : tokens;
}

export class LogProbHead {
  private kept: (Tensor | null)[] = [];
  /** Bytes that may still be kept for backward. */
  private spare: number;
  private readonly chunk: number;
  private readonly scale: number;
  /** Per chunk, for the way back. */
  private readonly statistics: { normalizer: Tensor; entropy: Tensor }[] = [];
  readonly result: HeadResult;

  /**
   * @param hidden [tokens, features]
   * @param weight [vocabulary, features]
   * @param targets [tokens] int64
   */
  constructor(
    private readonly hidden: Tensor,
    private readonly weight: Tensor,
    private readonly targets: Tensor,
    private readonly options: LogProbHeadOptions = {},
  ) {
    this.chunk = options.chunkTokens ?? defaultChunk(weight);
    this.scale = 1 / (options.temperature ?? 1);
    this.spare = options.train ? (options.keepBytes ?? this.spareBytes()) : 0;
    this.result = noGrad(() => scope(() => this.forward()));
    for (const value of Object.values(this.result)) (value as Tensor | null)?.keep();
  }

  private get onCuda(): boolean {
    return this.hidden.device.startsWith('cuda');
  }

  /** Logits of one chunk, [chunk, vocabulary]. */
  private logits(start: number, length: number): Tensor {
    return aten.verlet_linear(this.hidden.narrow(0, start, length), this.weight);
  }

  /** What may be kept when nobody says so: computing the logits again costs a tenth of the pass, so spare memory is worth using. */
  private spareBytes(): number {
    if (!this.onCuda) return chunkBytes;
    const { free, reserved, allocated } = cudaMemory(this.hidden.device);
    return (free + reserved - allocated) / 8;
  }

  /** Whether a chunk's logits still fit into what may be kept; takes their room if so. */
  private takesRoom(length: number): boolean {
    const bytes = (this.weight.size(0) * length * this.weight.nbytes) / this.weight.numel;
    if (bytes > this.spare) return false;
    this.spare -= bytes;
    return true;
  }

  private gather(logProbs: Tensor[], entropies: Tensor[], squares: Tensor[], alternatives: Tensor[]): HeadResult {
    const join = (parts: Tensor[]): Tensor => {
      const joined =
        parts.length === 0
          ? empty([0], { device: this.hidden.device })
          : parts.length === 1
            ? parts[0]!.clone()
            : cat(parts);
      for (const part of parts) part.dispose();
      return joined;
    };
    return {
      logProbs: join(logProbs),
      entropy: this.options.entropy ? join(entropies) : null,
      sumPiSquared: this.options.sumPiSquared ? join(squares) : null,
      alternatives: this.options.alternatives ? join(alternatives) : null,
    };
  }

  private forward(): HeadResult {
    const tokens = this.hidden.size(0);
    const logProbs: Tensor[] = [];
    const entropies: Tensor[] = [];
    const squares: Tensor[] = [];
    const alternatives: Tensor[] = [];
    for (let start = 0; start < tokens; start += this.chunk) {
      const length = Math.min(this.chunk, tokens - start);
      scope(() => {
        const logits = this.logits(start, length);
        const targets = this.targets.narrow(0, start, length);
        const [logProb, normalizer, entropy, square] = aten.verlet_token_log_probs(logits, targets, this.scale);
        logProbs.push(logProb.keep());
        const others = this.options.alternatives?.narrow(0, start, length);
        if (others) {
          const scaled = logits.gather(1, others).to('float32').mul(this.scale);
          alternatives.push(scaled.sub_(normalizer.unsqueeze(1)).keep());
        }
        if (this.options.sumPiSquared) squares.push(square.keep());
        if (this.options.entropy) entropies.push(entropy.clone().keep());
        if (this.options.train)
          this.statistics.push({ normalizer: normalizer.heldBy(this), entropy: entropy.heldBy(this) });
        this.kept.push(this.takesRoom(length) ? logits.heldBy(this) : null);
      });
    }
    return this.gather(logProbs, entropies, squares, alternatives);
  }

  /** The logits' gradient of one chunk, in the hidden states' dtype. */
  private gradLogits(start: number, length: number, index: number, gradients: HeadGradients): Tensor {
    const logits = this.kept[index] ?? this.logits(start, length);
    const { normalizer, entropy } = this.statistics[index]!;
    const part = (whole: Tensor | null): Tensor | null => whole?.narrow(0, start, length) ?? null;
    const targets = part(this.targets)!;
    const outer = part(gradients.logProbs)!;
    const others = part(gradients.alternatives);
    const sum = others?.sum(-1) ?? null;
    const total = sum ? outer.add(sum) : outer;
    const inner = part(gradients.entropy);
    aten.verlet_token_log_probs_backward_(logits, targets, normalizer, entropy, total, inner, this.scale);
    if (others) {
      // The kernel gave all of it to the target; what belongs to the alternatives goes over to them.
      const narrow = (x: Tensor): Tensor => x.mul(this.scale).to(logits.dtype);
      logits.scatterAdd_(1, targets.unsqueeze(1), narrow(sum!.neg()).unsqueeze(1));
      logits.scatterAdd_(1, part(this.options.alternatives!)!, narrow(others));
    }
    return logits;
  }

  /**
   * @param gradLogProbs [tokens] float32
   * @param gradEntropy [tokens] float32, or null
   * @param weightParameter gets the weight's gradient, unless null
   * @param gradAlternatives [tokens, count] float32, or null
   * @returns the gradient of the hidden states, [tokens, features]
   */
  backward(
    gradLogProbs: Tensor,
    gradEntropy: Tensor | null,
    weightParameter: Parameter | null,
    gradAlternatives: Tensor | null = null,
  ): Tensor {
    if (!this.options.train) throw new Error('LogProbHead: backward needs { train: true }');
    const tokens = this.hidden.size(0);
    const gradients = { logProbs: gradLogProbs, entropy: gradEntropy, alternatives: gradAlternatives };
    const result = noGrad(() =>
      scope(() => {
        const parts: Tensor[] = [];
        for (let start = 0, index = 0; start < tokens; start += this.chunk, index++) {
          const length = Math.min(this.chunk, tokens - start);
          const part = scope(() => {
            const narrow = this.gradLogits(start, length, index, gradients);
            if (weightParameter?.trainable)
              weightParameter.accumulateProduct(narrow, this.hidden.narrow(0, start, length));
            return aten.verlet_linear(narrow, this.weight.t());
          });
          parts.push(part);
          this.kept[index]?.dispose();
          this.kept[index] = null;
        }
        return parts.length === 1 ? parts[0]! : parts.length === 0 ? this.hidden.clone() : cat(parts);
      }),
    );
    this.dispose();
    return result;
  }

  /** Frees what was kept for backward (not the results). */
  dispose(): void {
    for (const tensor of this.kept) tensor?.dispose();
    this.kept = [];
    for (const { normalizer, entropy } of this.statistics.splice(0)) {
      normalizer.dispose();
      entropy.dispose();
    }
  }
}

export interface TopLogProbs {
  /** [tokens, count] int64, the likeliest first. */
  ids: Tensor;
  /** [tokens, count] float32 */
  logProbs: Tensor;
}

/**
 * The likeliest tokens of every position with their log-probabilities, in chunks like the head's. With `among`, only tokens
 * below that id are named; the probabilities are those among all.
 */
export function topLogProbs(
  hidden: Tensor,
  weight: Tensor,
  count: number,
  options: { temperature?: number; among?: number; chunkTokens?: number } = {},
): TopLogProbs {
  const vocabulary = weight.size(0);
  const among = Math.min(options.among ?? vocabulary, vocabulary);
  const chunk = options.chunkTokens ?? Math.max(64, Math.floor(chunkBytes / 4 / vocabulary));
  return noGrad(() =>
    scope(() => {
      const parts: [Tensor, Tensor][] = [];
      for (let start = 0; start === 0 || start < hidden.size(0); start += chunk)
        parts.push(
          scope(() => {
            const rows = hidden.narrow(0, start, Math.min(chunk, hidden.size(0) - start));
            const logits = aten
              .linear(rows, weight)
              .to('float32')
              .div(options.temperature ?? 1);
            const [values, ids] = aten.topk(logits.narrow(1, 0, among), Math.min(count, among));
            return [ids, values.sub(logits.logsumexp(-1, true))] as [Tensor, Tensor];
          }),
        );
      const [ids, logProbs] = [parts.map(([first]) => first), parts.map(([, second]) => second)];
      return { ids: cat(ids), logProbs: cat(logProbs) };
    }),
  );
}

/** Log-probabilities of targets under a plain softmax, for small things; builds a graph. */
export function plainLogProbs(hidden: Tensor, weight: Tensor, targets: Tensor, temperature = 1): Tensor {
  const logits = aten.linear(hidden, weight).to('float32').div(temperature);
  return logits.logSoftmax(-1).gather(1, targets.unsqueeze(1)).squeeze(1);
}

/** [rows] int64 tensor of class indices from numbers. */
export function indexTensor(indices: ArrayLike<number>, device = 'cpu'): Tensor {
  return tensor(Int32Array.from(indices), { dtype: 'int64', device });
}
