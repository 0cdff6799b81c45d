import { Undecided, Undefined } from './budget.js';
import type { Rational } from './rational.js';

/**
 * Real functions on binary fixed-point numbers (a bigint counts units of 2^-320). Irrational constants are compared at
 * about 66 decimal digits, so a decimal approximation of pi is never taken for pi.
 */
export const precision = 320n;
export const unit = 1n << precision;
const half = unit >> 1n;

export const fromRational = (value: Rational): bigint => (value.numerator << precision) / value.denominator;
export const fromInteger = (value: number | bigint): bigint => BigInt(value) << precision;
export const multiply = (a: bigint, b: bigint): bigint => (a * b) >> precision;
export const absolute = (a: bigint): bigint => (a < 0n ? -a : a);

export function divide(a: bigint, b: bigint): bigint {
  if (absolute(b) <= negligible) throw new Undefined('division by zero');
  return (a << precision) / b;
}

/** Values this small are what rounding leaves of zero. */
export const negligible = 1n << 100n;

/** Difference is at most 2^-220, relative to the larger value when that is above one. */
export function nearlyEqual(a: bigint, b: bigint): boolean {
  const scale = absolute(a) + absolute(b);
  return absolute(a - b) <= (scale > unit ? scale >> 220n : negligible);
}

const toDouble = (a: bigint): number => Number(a >> (precision - 60n)) / 2 ** 60;

function integerSquareRoot(value: bigint): bigint {
  if (value < 2n) return value;
  let guess = 1n << BigInt((value.toString(16).length * 4 + 2) >> 1);
  for (;;) {
    const next = (guess + value / guess) >> 1n;
    if (next >= guess) return guess;
    guess = next;
  }
}

export function squareRoot(a: bigint): bigint {
  if (a < 0n) throw new Undefined('square root of a negative number');
  return integerSquareRoot(a << precision);
}

function arctangentOfInverse(n: bigint): bigint {
  let term = unit / n;
  let sum = term;
  for (let k = 3n; term !== 0n; k += 2n) {
    term = -term / (n * n);
    sum += term / k;
  }
  return sum;
}

/** Machin's formula. */
export const pi: bigint = 4n * (4n * arctangentOfInverse(5n) - arctangentOfInverse(239n));

function taylorExponential(a: bigint): bigint {
  let term = unit;
  let sum = unit;
  for (let k = 1n; term !== 0n && term !== -1n; k += 1n) {
    term = multiply(term, a) / k;
    sum += term;
  }
  return sum;
}

const naturalLogarithmOfTwo = 18n * arctanhOfInverse(26n) - 2n * arctanhOfInverse(4801n) + 8n * arctanhOfInverse(8749n);

function arctanhOfInverse(n: bigint): bigint {
  let term = unit / n;
  let sum = term;
  for (let k = 3n; term !== 0n; k += 2n) {
    term /= n * n;
    sum += term / k;
  }
  return sum;
}

export function exponential(a: bigint): bigint {
  const doublings = (a + (a < 0n ? -half : half)) / naturalLogarithmOfTwo;
  // Below 2^-120 a fixed-point result has too few digits left to tell values apart.
  if (doublings < -120n || doublings > 4_000n) throw new Undecided('exponential out of range');
  const value = taylorExponential(a - doublings * naturalLogarithmOfTwo);
  return doublings >= 0n ? value << doublings : value >> -doublings;
}

export function logarithm(a: bigint): bigint {
  if (a <= 0n) throw new Undefined('logarithm of a number that is not positive');
  const shift = BigInt(a.toString(2).length) - precision;
  const mantissa = shift >= 0n ? a >> shift : a << -shift; // in [1/2, 1)
  let y = BigInt(Math.round(Math.log(toDouble(mantissa)) * 2 ** 50)) << (precision - 50n);
  for (let round = 0; round < 3; round++) {
    const e = exponential(y);
    y += 2n * (((mantissa - e) << precision) / (mantissa + e)); // Halley: three times the digits per round
  }
  return y + shift * naturalLogarithmOfTwo;
}

function sineSeries(a: bigint): bigint {
  const square = multiply(a, a);
  let term = a;
  let sum = a;
  for (let k = 1n; term !== 0n && term !== -1n; k += 1n) {
    term = -multiply(term, square) / (2n * k * (2n * k + 1n));
    sum += term;
  }
  return sum;
}

export function sine(a: bigint): bigint {
  const turns = a / (2n * pi);
  return sineSeries(a - turns * 2n * pi);
}

export const cosine = (a: bigint): bigint => sine(a + pi / 2n);

export function arctangent(a: bigint): bigint {
  let x = a;
  let doublings = 0n;
  while (absolute(x) > unit >> 4n) {
    x = divide(x, unit + squareRoot(unit + multiply(x, x)));
    doublings += 1n;
  }
  const square = multiply(x, x);
  let term = x;
  let sum = x;
  for (let k = 3n; term !== 0n && term !== -1n; k += 2n) {
    term = -multiply(term, square);
    sum += term / k;
  }
  return sum << doublings;
}

export function arcsine(a: bigint): bigint {
  const rest = unit - multiply(a, a);
  if (rest < -negligible) throw new Undefined('arcsine outside [-1, 1]');
  if (rest <= negligible) return a > 0n ? pi / 2n : -pi / 2n;
  return arctangent(divide(a, squareRoot(rest)));
}
