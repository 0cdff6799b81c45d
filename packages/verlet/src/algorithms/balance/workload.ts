/** Cost of a sequence: linear layers and attention of a model of hidden size 4096. */
export function workload(length: number): number {
  return 24576 * length + length ** 2;
}

export const ceilDivide = (a: number, b: number): number => Math.ceil(a / b);

/** The next multiple of `divisor`. */
export const roundUp = (value: number, divisor: number): number => ceilDivide(value, divisor) * divisor;
