/** The decoder: embedding, layers of attention and SwiGLU, norm, head. One class for all families; `ModelConfig` tells them apart. */
import { aten, nn, noGrad, randn, scope, type Tensor } from '@verlet/torch';
import type { AttentionContext } from './attention.js';
import type { ModelConfig } from './config.js';
import { PackedLinear } from './linear.js';
import { RopeTable } from './rope.js';

class SelfAttention extends nn.Module {
  readonly qkv_proj: PackedLinear;
  readonly o_proj: PackedLinear;
  readonly q_norm: nn.RMSNorm | null;
  readonly k_norm: nn.RMSNorm | null;

  constructor(
    private readonly config: ModelConfig,
    private readonly layer: number,
    options: nn.LayerOptions,
  ) {
    super();
    const { hiddenSize, numHeads, numKvHeads, headDim } = config;
    const std = config.initializerRange;
    this.qkv_proj = new PackedLinear(
      hiddenSize,
      config.fusedProjections
        ? [{ name: 'qkv_proj', outFeatures: (numHeads + 2 * numKvHeads) * headDim }]
        : [
            { name: 'q_proj', outFeatures: numHeads * headDim },
            { name: 'k_proj', outFeatures: numKvHeads * headDim },
            { name: 'v_proj', outFeatures: numKvHeads * headDim },
          ],
      { ...options, bias: config.qkvBias, std },
    );
    this.o_proj = new PackedLinear(numHeads * headDim, [{ name: 'o_proj', outFeatures: hiddenSize }], {
      ...options,
      bias: config.outputBias,
      std,
    });
    this.q_norm = config.qkNorm ? new nn.RMSNorm(headDim, config.rmsNormEps, options) : null;
    this.k_norm = config.qkNorm ? new nn.RMSNorm(headDim, config.rmsNormEps, options) : null;
  }

  forward(x: Tensor, rope: RopeTable, context: AttentionContext, rows: Tensor | null = null): Tensor {
    const { numHeads, numKvHeads, headDim } = this.config;
    const qkv = this.qkv_proj.forward(x).reshape(-1, numHeads + 2 * numKvHeads, headDim);
    const window = this.config.slidingWindows[this.layer] ?? null;
    if (context.attendProjected)
      return this.o_proj.forward(
        context.attendProjected(this.layer, qkv, {
          heads: numHeads,
          ...rope.tables,
          qNorm: this.q_norm?.weight ?? null,
          kNorm: this.k_norm?.weight ?? null,
          eps: this.config.rmsNormEps,
          window,
        }),
      );
    const [q, k, v] = this.rotate(qkv, rope, context.positions);
    const attended = context.attend(this.layer, q, k, v, window);
    return this.o_proj.forward(rows ? attended.indexSelect(0, rows) : attended);
  }

  private rotate(qkv: Tensor, rope: RopeTable, positions: Tensor): [Tensor, Tensor, Tensor] {
    const { numHeads, numKvHeads } = this.config;
    if (!this.q_norm)
      // One tensor in, one out: the gradient of the split is one copy instead of zeros and sums for each part.
      return rope.rotatePartial(qkv, positions, numHeads + numKvHeads).split([numHeads, numKvHeads, numKvHeads], 1) as [
        Tensor,
        Tensor,
        Tensor,
      ];
    const q = qkv.narrow(1, 0, numHeads);
    const k = qkv.narrow(1, numHeads, numKvHeads);
    return [
      rope.rotate(this.q_norm ? this.q_norm.forward(q) : q, positions),
      rope.rotate(this.k_norm ? this.k_norm.forward(k) : k, positions),
      qkv.narrow(1, numHeads + numKvHeads, numKvHeads),
    ];
  }
}

class FeedForward extends nn.Module {
  readonly gate_up_proj: PackedLinear;
  readonly down_proj: PackedLinear;

  constructor(config: ModelConfig, options: nn.LayerOptions) {
    super();
    const { hiddenSize, intermediateSize, mlpBias: bias, initializerRange: std } = config;
    this.gate_up_proj = new PackedLinear(
      hiddenSize,
      config.fusedProjections
        ? [{ name: 'gate_up_proj', outFeatures: 2 * intermediateSize }]
        : [
            { name: 'gate_proj', outFeatures: intermediateSize },
            { name: 'up_proj', outFeatures: intermediateSize },
          ],
      { ...options, bias, std },
    );
    this.down_proj = new PackedLinear(intermediateSize, [{ name: 'down_proj', outFeatures: hiddenSize }], {
      ...options,
      bias,
      std,
    });
  }

  forward(x: Tensor): Tensor {
    return this.down_proj.forward(aten.verlet_swiglu(this.gate_up_proj.forward(x)));
  }
}

export class DecoderLayer extends nn.Module {
  readonly self_attn: SelfAttention;
  readonly mlp: FeedForward;
  readonly input_layernorm: nn.RMSNorm;
  readonly post_attention_layernorm: nn.RMSNorm;

  constructor(config: ModelConfig, layer: number, options: nn.LayerOptions) {
    super();
    this.self_attn = new SelfAttention(config, layer, options);
    this.mlp = new FeedForward(config, options);
    this.input_layernorm = new nn.RMSNorm(config.hiddenSize, config.rmsNormEps, options);
    this.post_attention_layernorm = new nn.RMSNorm(config.hiddenSize, config.rmsNormEps, options);
  }

  /** @param rows the only tokens whose output is wanted, as many times as they stand there; null for all */
  forward(x: Tensor, rope: RopeTable, context: AttentionContext, rows: Tensor | null = null): Tensor {
    // Added into the projections' own outputs, which nothing else needs.
    const attended = this.self_attn
      .forward(this.input_layernorm.forward(x), rope, context, rows)
      .add_(rows ? x.indexSelect(0, rows) : x);
    return this.mlp.forward(this.post_attention_layernorm.forward(attended)).add_(attended);
  }

  /** Without gradients: what the layers add stays apart from the residual until the next norm, which adds it in one pass. */
  infer(state: ResidualState, rope: RopeTable, context: AttentionContext): ResidualState {
    const first = state.added
      ? this.input_layernorm.forwardAdded(state.added, state.residual)
      : { normed: this.input_layernorm.forward(state.residual), sum: state.residual };
    const attended = this.self_attn.forward(first.normed, rope, context);
    const second = this.post_attention_layernorm.forwardAdded(attended, first.sum);
    return { added: this.mlp.forward(second.normed), residual: second.sum };
  }
}

interface ResidualState {
  added: Tensor | null;
  residual: Tensor;
}

export interface TransformerOptions extends nn.LayerOptions {}

/** Token ids to hidden states. */
export class Decoder extends nn.Module {
  readonly embed_tokens: TokenEmbedding;
  readonly layers: DecoderLayer[];
  readonly norm: nn.RMSNorm;
  private readonly rope: RopeTable;

  constructor(
    readonly config: ModelConfig,
    readonly options: TransformerOptions = {},
  ) {
    super();
    this.embed_tokens = new TokenEmbedding(config, options);
    this.layers = Array.from({ length: config.numLayers }, (_, k) => new DecoderLayer(config, k, options));
    this.norm = new nn.RMSNorm(config.hiddenSize, config.rmsNormEps, options);
    this.rope = new RopeTable(config, options.device ?? 'cpu', options.dtype ?? 'float32');
  }

  override dispose(): void {
    super.dispose();
    this.rope.dispose();
  }

  /** Makes the rotary table long enough; needed before a CUDA graph is captured, since the table moves when it grows. */
  reservePositions(length: number): void {
    this.rope.reserve(length);
  }

  /** Good until `reservePositions` or a forward pass asks for more positions. */
  get rotaryTables(): { cos: Tensor; sin: Tensor } {
    return this.rope.tables;
  }

  /** Hidden states after the last norm, [tokens, hidden]; with `rows` those of these tokens only, [rows, hidden]. */
  forward(inputIds: Tensor, context: AttentionContext, rows: Tensor | null = null): Tensor {
    this.rope.reserve(context.maxPosition);
    let x = aten.embedding(this.embed_tokens.weight, inputIds);
    if (context.attendProjected) {
      const hidden = this.infer(x, context);
      return rows ? hidden.indexSelect(0, rows) : hidden;
    }
    for (const layer of this.layers) {
      const input = x;
      x = scope(() => layer.forward(input, this.rope, context, layer === this.layers.at(-1) ? rows : null));
    }
    return this.norm.forward(x);
  }

  private infer(embedded: Tensor, context: AttentionContext): Tensor {
    let state: ResidualState = { added: null, residual: embedded };
    for (const layer of this.layers) {
      const before = state;
      state = scope(() => layer.infer(before, this.rope, context));
      before.added?.dispose();
      before.residual.dispose();
    }
    return scope(() => this.norm.forwardAdded(state.added!, state.residual).normed);
  }

  /** A pass that can be walked back layer by layer; with `rows` its hidden states are those of these tokens only. */
  forwardForTraining(
    inputIds: Tensor,
    context: AttentionContext,
    options: { recompute?: boolean; rows?: Tensor } = {},
  ): DecoderPass {
    const { rows = null } = options;
    this.rope.reserve(context.maxPosition);
    const segments: nn.Segment[] = this.layers.map((layer) => ({
      parameters: () => layer.parameters(),
      // Only the last layer may leave tokens out: those before it make keys and values of all.
      forward: (x) => layer.forward(x, this.rope, context, layer === this.layers.at(-1) ? rows : null),
    }));
    segments.push({ parameters: () => this.norm.parameters(), forward: (x) => this.norm.forward(x) });
    const embedded = noGrad(() => aten.embedding(this.embed_tokens.weight, inputIds));
    const tape = nn.SegmentTape.forward(segments, embedded, options);
    embedded.dispose();
    return {
      hidden: tape.output,
      backward: (gradHidden) => {
        const gradient = tape.backward(gradHidden);
        const weight = this.embed_tokens.weight;
        if (weight.trainable)
          scope(() => weight.accumulate(aten.embedding_dense_backward(gradient, inputIds, weight.size(0), -1, false)));
        gradient.dispose();
      },
      dispose: () => tape.dispose(),
    };
  }
}

/** One training pass: the hidden states, and the way back. Exactly one of `backward` and `dispose` must be called. */
export interface DecoderPass {
  hidden: Tensor;
  backward(gradHidden: Tensor): void;
  dispose(): void;
}

class TokenEmbedding extends nn.Module {
  readonly weight: nn.Parameter;
  constructor(config: ModelConfig, options: nn.LayerOptions) {
    super();
    this.weight = scope(
      () => new nn.Parameter(randn([config.vocabSize, config.hiddenSize], options).mul_(config.initializerRange)),
    );
  }
}

/** A decoder with its vocabulary head. */
export class CausalLM extends nn.Module {
  readonly model: Decoder;
  /** Null when the head shares the embedding's weight. */
  readonly lm_head: PackedLinear | null;

  constructor(
    readonly config: ModelConfig,
    options: TransformerOptions = {},
  ) {
    super();
    this.model = new Decoder(config, options);
    this.lm_head = config.tieWordEmbeddings
      ? null
      : new PackedLinear(config.hiddenSize, [{ name: 'lm_head', outFeatures: config.vocabSize }], {
          ...options,
          std: config.initializerRange,
        });
  }

  get device(): string {
    return this.model.options.device ?? 'cpu';
  }

  get dtype(): Tensor['dtype'] {
    return this.model.options.dtype ?? 'float32';
  }

  /** [vocabulary, hidden] */
  get headWeight(): nn.Parameter {
    return this.lm_head?.weight ?? this.model.embed_tokens.weight;
  }

  /** [tokens, vocabulary] */
  logits(hidden: Tensor): Tensor {
    return aten.linear(hidden, this.headWeight);
  }
}
