/** Over every token of a batch: by index, because an iterator makes an object of each number. */
export function mean(values: readonly number[]): number {
  if (values.length === 0) return Number.NaN;
  let sum = 0;
  for (let k = 0; k < values.length; k++) sum += values[k]!;
  return sum / values.length;
}

export function maximum(values: readonly number[]): number {
  let largest = Number.NEGATIVE_INFINITY;
  for (let k = 0; k < values.length; k++) if (values[k]! > largest) largest = values[k]!;
  return largest;
}

export function minimum(values: readonly number[]): number {
  let smallest = Number.POSITIVE_INFINITY;
  for (let k = 0; k < values.length; k++) if (values[k]! < smallest) smallest = values[k]!;
  return smallest;
}

/** With Bessel's correction, as PyTorch's `std`; 0 for a single value. */
export function standardDeviation(values: readonly number[]): number {
  if (values.length < 2) return 0;
  const center = mean(values);
  let sum = 0;
  for (let k = 0; k < values.length; k++) sum += (values[k]! - center) ** 2;
  return Math.sqrt(sum / (values.length - 1));
}
