import { noGrad } from '../autograd.js';
import { zeros } from '../create.js';
import * as aten from '../generated/ops.js';
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
        this.gradient = gradient.to('float32').heldBy(this);
      else this.gradient = gradient.heldBy(this);
    });
  }

  /**
   * Adds the product aᵀb of two matrices to the sum: of an output's gradient and the input that gave it, say. In float32 also
   * where they are 16-bit: a GPU widens on the way.
   */
  accumulateProduct(a: Tensor, b: Tensor): void {
    noGrad(() => {
      const widens = a.device.startsWith('cuda') && (a.dtype === 'bfloat16' || a.dtype === 'float16');
      if (!widens) this.accumulate(aten.verlet_turned_product(a, b));
      else if (this.gradient) aten.addmm_dtype_out(this.gradient, a.t(), b, 'float32', 1, 1, this.gradient);
      else this.gradient = aten.mm_dtype(a.t(), b, 'float32').heldBy(this);
    });
  }

  /** Adds rows of a gradient to the rows of the sum that `indices` name; an index may come again. */
  accumulateRows(indices: Tensor, rows: Tensor): void {
    noGrad(() => {
      this.gradient ??= zeros(this.shape, { device: this.device }).heldBy(this);
      this.gradient.indexAdd_(0, indices, rows.dtype === this.gradient.dtype ? rows : rows.to(this.gradient.dtype));
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
