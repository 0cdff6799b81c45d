/** The layers that language models are made of. Weights start as PyTorch starts them unless a tensor is given. */
import { ones, rand, randn, type TensorOptions, zeros } from '../create.js';
import * as aten from '../generated/ops.js';
import { scope } from '../scope.js';
import type { Tensor } from '../tensor.js';
import { Module } from './module.js';
import { Parameter } from './parameter.js';

export interface LayerOptions {
  dtype?: TensorOptions['dtype'];
  device?: string;
}

export class Linear extends Module {
  readonly weight: Parameter;
  readonly bias: Parameter | null;

  constructor(inFeatures: number, outFeatures: number, options: LayerOptions & { bias?: boolean } = {}) {
    super();
    const bound = 1 / Math.sqrt(inFeatures);
    const uniform = (shape: number[]): Parameter =>
      scope(
        () =>
          new Parameter(
            rand(shape, options)
              .mul(2 * bound)
              .sub(bound),
          ),
      );
    this.weight = uniform([outFeatures, inFeatures]);
    this.bias = options.bias === false ? null : uniform([outFeatures]);
  }

  forward(x: Tensor): Tensor {
    return aten.linear(x, this.weight, this.bias);
  }
}

export class Embedding extends Module {
  readonly weight: Parameter;

  constructor(count: number, features: number, options: LayerOptions = {}) {
    super();
    this.weight = scope(() => new Parameter(randn([count, features], options)));
  }

  forward(indices: Tensor): Tensor {
    return aten.embedding(this.weight, indices);
  }
}

export class RMSNorm extends Module {
  readonly weight: Parameter;

  constructor(
    readonly features: number,
    readonly eps = 1e-6,
    options: LayerOptions = {},
  ) {
    super();
    this.weight = scope(() => new Parameter(ones([features], options)));
  }

  forward(x: Tensor): Tensor {
    return aten.verlet_rms_norm(x, this.weight, this.eps);
  }

  /** The norm of `x + residual`, and that sum, in one pass. Without gradients. */
  forwardAdded(x: Tensor, residual: Tensor): { normed: Tensor; sum: Tensor } {
    const [normed, sum] = aten.verlet_add_rms_norm(x, residual, this.weight, this.eps);
    return { normed, sum };
  }

  /**
   * The gradient of `x`, by hand; adds the weight's. `around` is the gradient that reached `x` past the norm, on the residual:
   * it is added on the way.
   */
  backward(x: Tensor, gradient: Tensor, around: Tensor | null = null): Tensor {
    const [toX, toWeight] = aten.verlet_rms_norm_backward(gradient, x, this.weight, this.eps, around);
    if (this.weight.trainable) this.weight.accumulate(toWeight);
    return toX;
  }
}

export class LayerNorm extends Module {
  readonly weight: Parameter;
  readonly bias: Parameter;

  constructor(
    readonly features: number,
    readonly eps = 1e-5,
    options: LayerOptions = {},
  ) {
    super();
    this.weight = scope(() => new Parameter(ones([features], options)));
    this.bias = scope(() => new Parameter(zeros([features], options)));
  }

  forward(x: Tensor): Tensor {
    return aten.layer_norm(x, [this.features], this.weight, this.bias, this.eps);
  }
}
