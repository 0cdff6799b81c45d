/** Statistics over the positions where a mask is 1, with verl's rules. */
import { scope, type Tensor } from '@verlet/torch';

/** Sum over the mask; NaN outside of it does not leak in. */
export function maskedSum(values: Tensor, mask: Tensor, dim?: number): Tensor {
  const clean = values.maskedFill(mask.eq(0), 0);
  return clean.mul(mask).sum(dim ?? null);
}

export function maskedMean(values: Tensor, mask: Tensor, dim?: number): Tensor {
  return maskedSum(values, mask, dim).div(mask.sum(dim ?? null).add(1e-8));
}

export function maskedVar(values: Tensor, mask: Tensor, unbiased = true): Tensor {
  const mean = maskedMean(values, mask);
  const variance = maskedMean(values.sub(mean).square(), mask);
  if (!unbiased) return variance;
  const count = mask.sum().item();
  if (count === 0) throw new RangeError('the mask is empty: there is no variance');
  if (count === 1) throw new RangeError('the mask has one element: its variance cannot be corrected for bias');
  return variance.mul(count / (count - 1));
}

/** Mean 0 (unless kept) and variance 1 over the mask. */
export function maskedWhiten(values: Tensor, mask: Tensor, shiftMean = true): Tensor {
  return scope(() => {
    const mean = maskedMean(values, mask);
    const whitened = values.sub(mean).mul(maskedVar(values, mask).add(1e-8).rsqrt());
    return shiftMean ? whitened : whitened.add(mean);
  });
}
