import { noGrad } from '../autograd.js';
import { native } from '../native.js';
import { Tensor } from '../tensor.js';

/**
 * A tensor that is trained. It lives until `dispose()`, whatever scope it was made in. Gradients are summed here in float32
 * also when the parameter itself is bfloat16, so that many micro-batches add up without losing bits.
 */
export class Parameter extends Tensor {
  /** Sum of the gradients since the last `clearGradient()`. */
  gradient: Tensor | null = null;
  private isTrainable = true;

  constructor(value: Tensor, options: { trainable?: boolean } = {}) {
    super(native.alias(value.handle));
    this.keep();
    this.trainable = options.trainable ?? true;
  }

  get trainable(): boolean {
    return this.isTrainable;
  }

  set trainable(value: boolean) {
    this.isTrainable = value;
    this.setRequiresGrad(value);
  }

  /** Adds a gradient to the sum; takes over the tensor when it is the first and already float32. */
  accumulate(gradient: Tensor): void {
    noGrad(() => {
      if (this.gradient) this.gradient.add_(gradient);
      else if (gradient.dtype === 'bfloat16' || gradient.dtype === 'float16')
        this.gradient = gradient.to('float32').keep();
      else this.gradient = gradient.keep();
    });
  }

  clearGradient(): void {
    this.gradient?.dispose();
    this.gradient = null;
  }

  override dispose(): void {
    this.clearGradient();
    super.dispose();
  }
}
