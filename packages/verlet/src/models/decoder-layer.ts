/**
 * One layer of the decoder: attention and SwiGLU, each behind a norm and around a residual. `rows` names the only tokens whose
 * output is wanted (in the last layer, those that predict something); null means all. Forward for sampling and scoring,
 * forward and backward for training. Backward is written out by hand (the attention itself excepted), so that what it keeps,
 * computes again and overwrites is decided here, line by line.
 */
import { aten, cat, enableGrad, grad, nn, scope, type Tensor, zeros } from '@verlet/torch';
import type { AttentionContext } from './attention.js';
import type { ModelConfig } from './config.js';
import { PackedLinear } from './linear.js';
import type { Recompute } from './recompute.js';
import type { RopeTable } from './rope.js';

/** What a layer keeps between forward and backward; what is missing is computed again. */
export interface KeptActivations {
  /** The residual that entered the layer, [tokens, hidden]. */
  input: Tensor;
  attention?: AttentionState;
  /** The residual after attention, [rows, hidden]. */
  sum?: Tensor;
  /** What the feed-forward part's first projection gave, [rows, 2 * intermediate]. */
  gateUp?: Tensor;
}

interface AttentionState {
  /** The projection as it was before the norms of queries and keys, where the model has them. */
  qkv: Tensor | null;
  q: Tensor;
  k: Tensor;
  v: Tensor;
  /** [tokens, heads * headDim], with the graph from q, k and v. */
  attended: Tensor;
}

type Parts = [q: Tensor, k: Tensor, v: Tensor];

/** The tokens that are wanted, as many times as they stand in `rows`; all when there is none. */
function pick(x: Tensor, rows: Tensor | null): Tensor {
  return rows ? x.indexSelect(0, rows) : x;
}

/** The gradient of what `pick` was given. Tokens that came many times sum in float32. */
function spread(gradient: Tensor, rows: Tensor | null, tokens: number): Tensor {
  if (!rows) return gradient;
  const { dtype, device } = gradient;
  const sums = zeros([tokens, gradient.size(1)], { device }).indexAdd_(0, rows, gradient.to('float32'));
  return sums.to(dtype);
}

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

  forward(x: Tensor, rope: RopeTable, context: AttentionContext, rows: Tensor | null): Tensor {
    const qkv = this.project(x);
    if (!context.attendProjected) {
      const [q, k, v] = this.rotate(qkv, rope, context.positions);
      return this.o_proj.forward(pick(context.attend(this.layer, q, k, v, this.window), rows));
    }
    const attended = context.attendProjected(this.layer, qkv, {
      heads: this.config.numHeads,
      ...rope.tables,
      qNorm: this.q_norm?.weight ?? null,
      kNorm: this.k_norm?.weight ?? null,
      eps: this.config.rmsNormEps,
      window: this.window,
    });
    return this.o_proj.forward(pick(attended, rows));
  }

  /** [tokens, heads + 2 kvHeads, headDim] */
  private project(x: Tensor): Tensor {
    const { numHeads, numKvHeads, headDim } = this.config;
    return this.qkv_proj.forward(x).reshape(-1, numHeads + 2 * numKvHeads, headDim);
  }

  private get window(): number | null {
    return this.config.slidingWindows[this.layer] ?? null;
  }

  /** Up to the output projection, for a pass that will be walked back. */
  attend(x: Tensor, rope: RopeTable, context: AttentionContext): AttentionState {
    const qkv = this.project(x);
    const [q, k, v] = this.rotate(qkv, rope, context.positions).map((part) =>
      part.detach().setRequiresGrad(true),
    ) as Parts;
    const attended = enableGrad(() => context.attend(this.layer, q, k, v, this.window));
    return { qkv: this.q_norm ? qkv : null, q, k, v, attended };
  }

  /** The gradient of the input, given that of the projected output. Adds those of the weights. */
  backward(
    x: Tensor,
    state: AttentionState,
    gradient: Tensor,
    rope: RopeTable,
    context: AttentionContext,
    rows: Tensor | null,
  ): Tensor {
    this.o_proj.accumulateGradients(pick(state.attended.detach(), rows), gradient);
    const gradAttended = spread(this.o_proj.gradInput(gradient), rows, x.size(0));
    const gradients = grad([state.attended], [state.q, state.k, state.v], [gradAttended]) as Parts;
    const gradQkv = this.rotateBack(state.qkv, gradients, rope, context.positions).reshape(
      x.size(0),
      this.qkv_proj.outFeatures,
    );
    this.qkv_proj.accumulateGradients(x, gradQkv);
    return this.qkv_proj.gradInput(gradQkv);
  }

  private rotateBack(qkv: Tensor | null, [q, k, v]: Parts, rope: RopeTable, positions: Tensor): Tensor {
    if (!qkv) return rope.rotateBack(q, k, v, positions);
    const { numHeads, numKvHeads } = this.config;
    return cat(
      [
        this.q_norm!.backward(qkv.narrow(1, 0, numHeads), rope.rotate(q, positions, true)),
        this.k_norm!.backward(qkv.narrow(1, numHeads, numKvHeads), rope.rotate(k, positions, true)),
        v,
      ],
      1,
    );
  }

  private rotate(qkv: Tensor, rope: RopeTable, positions: Tensor): Parts {
    const { numHeads, numKvHeads } = this.config;
    if (!this.q_norm)
      // One tensor in, one out, and the projection itself is needed no more.
      return rope
        .rotatePartial(qkv, positions, numHeads + numKvHeads)
        .split([numHeads, numKvHeads, numKvHeads], 1) as Parts;
    const q = qkv.narrow(1, 0, numHeads);
    const k = qkv.narrow(1, numHeads, numKvHeads);
    return [
      rope.rotate(this.q_norm.forward(q), positions),
      rope.rotate(this.k_norm!.forward(k), positions),
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
    return this.down(this.gate_up_proj.forward(x));
  }

  down(gateUp: Tensor): Tensor {
    return this.down_proj.forward(aten.verlet_swiglu(gateUp));
  }

  /** The gradient of the input. `gateUp`, what the first projection gave, is spent. Adds the gradients of the weights. */
  backward(x: Tensor, gateUp: Tensor, gradient: Tensor): Tensor {
    // One pass exchanges both: what SwiGLU gave takes the place of its gradient, and `gateUp` becomes its own.
    const activated = this.down_proj.gradInput(gradient);
    aten.verlet_swiglu_backward_(activated, gateUp);
    this.down_proj.accumulateGradients(activated, gradient);
    this.gate_up_proj.accumulateGradients(x, gateUp);
    return this.gate_up_proj.gradInput(gateUp);
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

  /** Without gradients. What a layer adds stays apart from the residual until the next norm, which adds it in one pass. */
  forward(state: ResidualState, rope: RopeTable, context: AttentionContext, rows: Tensor | null): ResidualState {
    const first = this.enter(state);
    const attended = this.self_attn.forward(first.normed, rope, context, rows);
    const second = this.post_attention_layernorm.forwardAdded(attended, pick(first.sum, rows));
    return { added: this.mlp.forward(second.normed), residual: second.sum };
  }

  /** As `forward`, for a pass that will be walked back: also gives what `backward` will want, as far as `recompute` keeps it. */
  forwardForTraining(
    state: ResidualState,
    rope: RopeTable,
    context: AttentionContext,
    rows: Tensor | null,
    recompute: Recompute,
  ): { state: ResidualState; kept: KeptActivations } {
    const first = this.enter(state);
    const attention = this.self_attn.attend(first.normed, rope, context);
    const attended = this.self_attn.o_proj.forward(pick(attention.attended.detach(), rows));
    const second = this.post_attention_layernorm.forwardAdded(attended, pick(first.sum, rows));
    const gateUp = this.mlp.gate_up_proj.forward(second.normed);
    const added = this.mlp.down(gateUp);
    // A state is freed when the next layer has taken it: what is kept is kept under a handle of its own.
    const kept: KeptActivations = { input: first.sum.detach() };
    if (recompute !== 'full') Object.assign(kept, { attention, sum: second.sum.detach() });
    if (recompute === 'none') kept.gateUp = gateUp;
    return { state: { added, residual: second.sum }, kept };
  }

  /** The gradient of the layer's input, given that of its output. Adds those of the weights. */
  backward(
    kept: KeptActivations,
    gradient: Tensor,
    rope: RopeTable,
    context: AttentionContext,
    rows: Tensor | null,
  ): Tensor {
    const { input } = kept;
    const normedInput = this.input_layernorm.forward(input);
    const attention = kept.attention ?? this.self_attn.attend(normedInput, rope, context);
    const sum =
      kept.sum ?? this.self_attn.o_proj.forward(pick(attention.attended.detach(), rows)).add_(pick(input, rows));
    const gradSum = scope(() => {
      const normedSum = this.post_attention_layernorm.forward(sum);
      const gateUp = kept.gateUp ?? this.mlp.gate_up_proj.forward(normedSum);
      const gradNormed = this.mlp.backward(normedSum, gateUp, gradient);
      return this.post_attention_layernorm.backward(sum, gradNormed, gradient);
    });
    const gradNormed = this.self_attn.backward(normedInput, attention, gradSum, rope, context, rows);
    return this.input_layernorm.backward(input, gradNormed, spread(gradSum, rows, input.size(0)));
  }

  private enter({ added, residual }: ResidualState): { normed: Tensor; sum: Tensor } {
    if (added) return this.input_layernorm.forwardAdded(added, residual);
    return { normed: this.input_layernorm.forward(residual), sum: residual };
  }
}

/** The residual stream between two layers: the sum so far, and what the last layer adds to it. */
export interface ResidualState {
  added: Tensor | null;
  residual: Tensor;
}
