/**
 * Several projections of one input held as one weight, so that they run as one matrix product, while files keep their own
 * names (`q_proj`, `k_proj`, ...). A part can carry a low-rank adapter.
 */
import { aten, nn, noGrad, randn, scope, type Tensor, zeros } from '@verlet/torch';

export interface Part {
  name: string;
  outFeatures: number;
}

/** `y += scale * x Aᵀ Bᵀ` on one part. */
export class LowRankAdapter extends nn.Module {
  readonly lora_A: nn.Parameter;
  readonly lora_B: nn.Parameter;
  enabled = true;

  constructor(
    readonly inFeatures: number,
    readonly outFeatures: number,
    readonly rank: number,
    readonly scale: number,
    options: nn.LayerOptions = {},
  ) {
    super();
    // As PEFT starts them: A Kaiming-uniform with a = sqrt(5), B zero, so that training starts from the base model.
    const bound = 1 / Math.sqrt(inFeatures);
    this.lora_A = scope(
      () =>
        new nn.Parameter(
          aten
            .uniform_(zeros([rank, inFeatures], { device: options.device }), -bound, bound)
            .to(options.dtype ?? 'float32'),
        ),
    );
    this.lora_B = scope(() => new nn.Parameter(zeros([outFeatures, rank], options)));
  }

  delta(x: Tensor): Tensor {
    // The scale goes onto the narrow side.
    return aten.linear(aten.linear(x, this.lora_A).mul_(this.scale), this.lora_B);
  }

  /** The gradient on the narrow side, [tokens, rank]. */
  gradNarrow(gradient: Tensor): Tensor {
    return gradient.mm(this.lora_B).mul_(this.scale);
  }

  accumulateGradients(x: Tensor, gradient: Tensor): void {
    if (this.lora_A.trainable) this.lora_A.accumulateProduct(this.gradNarrow(gradient), x);
    if (this.lora_B.trainable) this.lora_B.accumulateProduct(gradient, aten.linear(x, this.lora_A).mul_(this.scale));
  }

  /** The dense matrix it stands for, [out, in]. */
  dense(): Tensor {
    return this.lora_B.to('float32').matmul(this.lora_A.to('float32')).mul(this.scale);
  }
}

export class PackedLinear extends nn.Module {
  readonly weight: nn.Parameter;
  readonly bias: nn.Parameter | null;
  /** By part, null where a part has none. Held out of the base state: see `namedAdapters`. */
  readonly adapters: (LowRankAdapter | null)[];
  readonly outFeatures: number;

  constructor(
    readonly inFeatures: number,
    readonly parts: readonly Part[],
    options: nn.LayerOptions & { bias?: boolean; std?: number } = {},
  ) {
    super();
    this.outFeatures = parts.reduce((sum, part) => sum + part.outFeatures, 0);
    this.weight = scope(
      () => new nn.Parameter(randn([this.outFeatures, inFeatures], options).mul_(options.std ?? 0.02)),
    );
    this.bias = options.bias ? scope(() => new nn.Parameter(zeros([this.outFeatures], options))) : null;
    this.adapters = parts.map(() => null);
  }

  forward(x: Tensor): Tensor {
    const y = aten.verlet_linear(x, this.weight, this.bias);
    for (const { adapter, offset } of this.activeAdapters())
      y.narrow(-1, offset, adapter.outFeatures).add_(adapter.delta(x));
    return y;
  }

  /** The gradient of the input, given that of the output. */
  gradInput(gradient: Tensor): Tensor {
    const result = aten.verlet_linear(gradient, this.weight.t());
    for (const { adapter, offset } of this.activeAdapters())
      aten.addmm_(result, adapter.gradNarrow(gradient.narrow(-1, offset, adapter.outFeatures)), adapter.lora_A);
    return result;
  }

  /** Adds the gradients of what is trained here, given the input and the output's gradient. */
  accumulateGradients(x: Tensor, gradient: Tensor): void {
    if (this.weight.trainable) this.weight.accumulateProduct(gradient, x);
    if (this.bias?.trainable) this.bias.accumulate(aten.sum_dim_IntList(gradient, [0], false, 'float32'));
    for (const { adapter, offset } of this.activeAdapters())
      adapter.accumulateGradients(x, gradient.narrow(-1, offset, adapter.outFeatures));
  }

  private *activeAdapters(): IterableIterator<{ adapter: LowRankAdapter; offset: number }> {
    for (const [k, adapter] of this.adapters.entries()) if (adapter?.enabled) yield { adapter, offset: this.offset(k) };
  }

  /** The rows of one part in the weight (a view). */
  partWeight(index: number): Tensor {
    return this.weight.detach().narrow(0, this.offset(index), this.parts[index]!.outFeatures);
  }

  /** One part's weight with its adapter added in (a copy). */
  mergedWeight(index: number): Tensor {
    return noGrad(() =>
      scope(() => {
        const weight = this.partWeight(index);
        const adapter = this.adapters[index];
        return adapter ? weight.to('float32').add(adapter.dense()).to(weight.dtype) : weight.clone();
      }),
    );
  }

  private offset(index: number): number {
    return this.parts.slice(0, index).reduce((sum, part) => sum + part.outFeatures, 0);
  }

  /** Files hold the parts under their own names beside this module's. Adapters are saved apart. */
  override *stateEntries(prefix = ''): IterableIterator<[string, Tensor]> {
    const parent = prefix.replace(/[^.]+\.$/, '');
    for (const [k, part] of this.parts.entries()) {
      yield [`${parent}${part.name}.weight`, this.partWeight(k)];
      if (this.bias)
        yield [`${parent}${part.name}.bias`, this.bias.detach().narrow(0, this.offset(k), part.outFeatures)];
    }
  }
}
