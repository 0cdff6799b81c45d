import { type Budget, Undecided, Undefined } from './budget.js';

/** Exact fractions of big integers: doubles call 2^100 and 2^100 + 1 equal, and a reward must not. */
export interface Rational {
  readonly numerator: bigint;
  /** Always positive; the fraction is in lowest terms. */
  readonly denominator: bigint;
}

export const zero: Rational = { numerator: 0n, denominator: 1n };
export const one: Rational = { numerator: 1n, denominator: 1n };

const magnitude = (value: bigint): bigint => (value < 0n ? -value : value);

export function greatestCommonDivisor(left: bigint, right: bigint): bigint {
  let a = magnitude(left);
  let b = magnitude(right);
  while (b !== 0n) [a, b] = [b, a % b];
  return a;
}

export function rational(numerator: bigint, denominator = 1n): Rational {
  if (denominator === 0n) throw new Undefined('division by zero');
  if (denominator === 1n) return { numerator, denominator };
  const divisor = greatestCommonDivisor(numerator, denominator) * (denominator < 0n ? -1n : 1n);
  return { numerator: numerator / divisor, denominator: denominator / divisor };
}

/** `12`, `.5`, `3.140`: the exact decimal value. */
export function parseDecimal(text: string): Rational {
  const [whole = '', fraction = ''] = text.split('.');
  return rational(BigInt(`${whole}${fraction}` || '0'), 10n ** BigInt(fraction.length));
}

export const isZero = (value: Rational): boolean => value.numerator === 0n;
export const isInteger = (value: Rational): boolean => value.denominator === 1n;
export const sameRational = (a: Rational, b: Rational): boolean =>
  a.numerator === b.numerator && a.denominator === b.denominator;

export const negate = (a: Rational): Rational => ({ numerator: -a.numerator, denominator: a.denominator });

export const add = (a: Rational, b: Rational): Rational =>
  rational(a.numerator * b.denominator + b.numerator * a.denominator, a.denominator * b.denominator);

export const subtract = (a: Rational, b: Rational): Rational => add(a, negate(b));

export const multiply = (a: Rational, b: Rational): Rational =>
  rational(a.numerator * b.numerator, a.denominator * b.denominator);

export const divide = (a: Rational, b: Rational): Rational =>
  rational(a.numerator * b.denominator, a.denominator * b.numerator);

export function compareRationals(a: Rational, b: Rational): number {
  const difference = a.numerator * b.denominator - b.numerator * a.denominator;
  return difference < 0n ? -1 : difference > 0n ? 1 : 0;
}

export function floor(value: Rational): bigint {
  const quotient = value.numerator / value.denominator;
  return value.numerator < 0n && quotient * value.denominator !== value.numerator ? quotient - 1n : quotient;
}

export const bitLength = (value: bigint): number => (value === 0n ? 0 : magnitude(value).toString(16).length * 4);
export const bitSize = (value: Rational): number => Math.max(bitLength(value.numerator), bitLength(value.denominator));

export function power(base: Rational, exponent: bigint, budget: Budget): Rational {
  if (exponent === 0n) return one;
  if (sameRational(base, one) || isZero(base)) {
    if (isZero(base) && exponent < 0n) throw new Undefined('division by zero');
    return base;
  }
  const times = magnitude(exponent);
  if (times > BigInt(budget.limits.maxBits)) throw new Undecided('exponent too large');
  budget.checkBits(bitSize(base) * Number(times));
  budget.spend(bitLength(times));
  const raised = { numerator: base.numerator ** times, denominator: base.denominator ** times };
  return exponent > 0n ? raised : rational(raised.denominator, raised.numerator);
}

/** The integer k-th root, or undefined when the value is not a perfect power. */
function exactIntegerRoot(value: bigint, degree: bigint): bigint | undefined {
  if (value < 2n) return value;
  let low = 1n;
  let high = 1n << BigInt(Math.ceil(bitLength(value) / Number(degree)) + 1);
  while (low <= high) {
    const middle = (low + high) >> 1n;
    const raised = middle ** degree;
    if (raised === value) return middle;
    if (raised < value) low = middle + 1n;
    else high = middle - 1n;
  }
  return undefined;
}

/** The real k-th root when it is rational: `\sqrt{9/4}` is 3/2, `\sqrt[3]{-8}` is -2. */
export function exactRoot(value: Rational, degree: bigint, budget: Budget): Rational | undefined {
  if (degree < 1n || degree > 64n) return undefined;
  if (value.numerator < 0n && degree % 2n === 0n) return undefined;
  budget.spend(bitSize(value));
  const numerator = exactIntegerRoot(magnitude(value.numerator), degree);
  const denominator = exactIntegerRoot(value.denominator, degree);
  if (numerator === undefined || denominator === undefined) return undefined;
  return { numerator: value.numerator < 0n ? -numerator : numerator, denominator };
}
