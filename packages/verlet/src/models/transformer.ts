/** The decoder: embedding, layers, norm, head. One class for all families; `ModelConfig` tells them apart. */
import { aten, nn, noGrad, randn, scope, type Tensor } from '@verlet/torch';
import type { AttentionContext } from './attention.js';
import type { ModelConfig } from './config.js';
import { DecoderLayer, type KeptActivations, type ResidualState } from './decoder-layer.js';
import { PackedLinear } from './linear.js';
import { type RecomputeChoice, recomputeAt } from './recompute.js';
import { RopeTable } from './rope.js';
import { canPassWhole, hiddenStates, passWhole } from './whole-pass.js';

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

  /**
   * Hidden states after the last norm, [tokens, hidden]; with `rows` those of these tokens only, [rows, hidden]. Without
   * gradients: `forwardForTraining` is the way to those.
   */
  forward(inputIds: Tensor, context: AttentionContext, rows: Tensor | null = null, whole?: boolean): Tensor {
    this.rope.reserve(context.maxPosition);
    if (canPassWhole(this, context, { whole })) return hiddenStates(this, inputIds, context, rows);
    return noGrad(() => {
      let state: ResidualState = { added: null, residual: aten.embedding(this.embed_tokens.weight, inputIds) };
      for (const layer of this.layers) {
        const before = state;
        state = scope(() => layer.forward(before, this.rope, context, this.rowsAfter(layer, rows)));
        freeState(before);
      }
      return scope(() => this.leave(state).normed);
    });
  }

  /** A pass that can be walked back layer by layer; with `rows` its hidden states are those of these tokens only. */
  forwardForTraining(inputIds: Tensor, context: AttentionContext, options: TrainingOptions = {}): DecoderPass {
    this.rope.reserve(context.maxPosition);
    if (canPassWhole(this, context, options)) return passWhole(this, inputIds, context, options.rows);
    const kept: KeptActivations[] = [];
    const [hidden, last] = noGrad(() => {
      let state: ResidualState = { added: null, residual: aten.embedding(this.embed_tokens.weight, inputIds) };
      for (const [k, layer] of this.layers.entries()) {
        const before = state;
        const recompute = recomputeAt(k, options.recompute);
        const wanted = this.rowsAfter(layer, options.rows ?? null);
        const after = scope(() => layer.forwardForTraining(before, this.rope, context, wanted, recompute));
        state = after.state;
        kept.push(after.kept);
        for (const tensor of tensorsIn(after.kept)) tensor.heldBy(after.kept);
        freeState(before);
      }
      const { normed, sum } = this.leave(state);
      return [normed.heldBy(kept), sum.heldBy(kept)];
    });
    const dispose = (): void => {
      for (const tensor of [hidden, last, ...kept.splice(0).flatMap(tensorsIn)]) tensor.dispose();
    };
    return {
      hidden,
      backward: (gradHidden) => {
        noGrad(() => this.backward(kept, last, gradHidden, inputIds, context, options.rows ?? null));
        dispose();
      },
      dispose,
    };
  }

  /** Only the last layer may leave tokens out: those before it make keys and values of all. */
  private rowsAfter(layer: DecoderLayer, rows: Tensor | null): Tensor | null {
    return layer === this.layers.at(-1) ? rows : null;
  }

  private leave(state: ResidualState): { normed: Tensor; sum: Tensor } {
    const result = this.norm.forwardAdded(state.added!, state.residual);
    freeState(state);
    return result;
  }

  /** Walks back, freeing what each layer kept. Gradients end up on the parameters. */
  private backward(
    kept: KeptActivations[],
    last: Tensor,
    gradHidden: Tensor,
    inputIds: Tensor,
    context: AttentionContext,
    rows: Tensor | null,
  ): void {
    let gradient = scope(() => this.norm.backward(last, gradHidden));
    for (const layer of [...this.layers].reverse()) {
      const own = kept.pop()!;
      const incoming = gradient;
      gradient = scope(() => layer.backward(own, incoming, this.rope, context, this.rowsAfter(layer, rows)));
      for (const tensor of [incoming, ...tensorsIn(own)]) tensor.dispose();
    }
    if (this.embed_tokens.weight.trainable) scope(() => this.embed_tokens.weight.accumulateRows(inputIds, gradient));
    gradient.dispose();
  }
}

export interface TrainingOptions {
  /** Whether the whole pass runs in one native call; by default where it can and its threads would have equal shares. */
  whole?: boolean;
  recompute?: RecomputeChoice;
  /** The only tokens whose hidden states are wanted, as many times as they stand there. */
  rows?: Tensor;
}

function freeState({ added, residual }: ResidualState): void {
  added?.dispose();
  residual.dispose();
}

function tensorsIn({ attention, ...others }: KeptActivations): Tensor[] {
  return [...Object.values(others), ...Object.values(attention ?? {})].filter((tensor) => tensor !== null);
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
