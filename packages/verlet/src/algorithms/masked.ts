/** Statistics over the positions where a mask is 1, with verl's rules. */
import { scope, stack, type Tensor } from '@verlet/torch';

/** Sum over the mask; NaN outside of it does not leak in, NaN inside is not hidden. */
export function maskedSum(values: Tensor, mask: Tensor, dim?: number): Tensor {
  return scope(() =>
    values
      .maskedFill(mask.eq(0), 0)
      .mul(mask)
      .sum(dim ?? null),
  );
}

/** An empty mask gives 0. */
export function maskedMean(values: Tensor, mask: Tensor, dim?: number): Tensor {
  return scope(() => maskedSum(values, mask, dim).div(mask.sum(dim ?? null).add(1e-8)));
}

export function maskedVar(values: Tensor, mask: Tensor, unbiased = true): Tensor {
  return scope(() => {
    const mean = maskedMean(values, mask);
    const variance = maskedMean(values.sub(mean).square(), mask);
    if (!unbiased) return variance;
    const count = mask.sum().item();
    checkVarianceCount(count);
    return variance.mul(count / (count - 1));
  });
}

export function checkVarianceCount(count: number): void {
  if (count === 0) throw new RangeError('the mask is empty: there is no variance');
  if (count === 1) throw new RangeError('the mask has one element: its variance cannot be corrected for bias');
}

/** Mean 0 (unless kept) and variance 1 over the mask. Positions outside are moved and scaled along, not zeroed. */
export function maskedWhiten(values: Tensor, mask: Tensor, shiftMean = true): Tensor {
  return scope(() => {
    const mean = maskedMean(values, mask);
    const whitened = values.sub(mean).mul(maskedVar(values, mask).add(1e-8).rsqrt());
    return shiftMean ? whitened : whitened.add(mean);
  });
}

/** Scalars as numbers, with one wait for the device instead of one each. */
export function readScalars(scalars: Readonly<Record<string, Tensor>>): Record<string, number> {
  const names = Object.keys(scalars);
  if (names.length === 0) return {};
  const values = scope(() =>
    stack(
      names.map((name) => scalars[name]!.detach().to('float64').reshape(1)),
      0,
    ).toFloat64Array(),
  );
  return Object.fromEntries(names.map((name, k) => [name, values[k]!]));
}
