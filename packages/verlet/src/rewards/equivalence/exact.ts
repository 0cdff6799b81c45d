import { type Budget, Undecided, Undefined } from './budget.js';
import type { Expression } from './expression.js';
import * as rationals from './rational.js';
import { isInteger, isZero, type Rational, rational, zero } from './rational.js';

/** A complex number with rational parts. */
export interface Exact {
  readonly re: Rational;
  readonly im: Rational;
}

export type Point = ReadonlyMap<string, Rational>;

const real = (re: Rational): Exact => ({ re, im: zero });
export const isReal = (value: Exact): boolean => isZero(value.im);
export const sameExact = (a: Exact, b: Exact): boolean =>
  rationals.sameRational(a.re, b.re) && rationals.sameRational(a.im, b.im);

export const add = (a: Exact, b: Exact): Exact => ({ re: rationals.add(a.re, b.re), im: rationals.add(a.im, b.im) });
export const negate = (a: Exact): Exact => ({ re: rationals.negate(a.re), im: rationals.negate(a.im) });

export function multiply(a: Exact, b: Exact): Exact {
  if (isReal(a) && isReal(b)) return real(rationals.multiply(a.re, b.re));
  return {
    re: rationals.subtract(rationals.multiply(a.re, b.re), rationals.multiply(a.im, b.im)),
    im: rationals.add(rationals.multiply(a.re, b.im), rationals.multiply(a.im, b.re)),
  };
}

function divide(a: Exact, b: Exact): Exact {
  if (isReal(a) && isReal(b)) return real(rationals.divide(a.re, b.re));
  const norm = rationals.add(rationals.multiply(b.re, b.re), rationals.multiply(b.im, b.im));
  const scaled = multiply(a, { re: b.re, im: rationals.negate(b.im) });
  return { re: rationals.divide(scaled.re, norm), im: rationals.divide(scaled.im, norm) };
}

function power(base: Exact, exponent: Exact, budget: Budget): Exact | undefined {
  if (!isReal(exponent)) return undefined;
  const { numerator, denominator } = exponent.re;
  if (denominator !== 1n) {
    if (!isReal(base) || denominator > 64n) return undefined;
    const root = rationals.exactRoot(base.re, denominator, budget);
    return root && real(rationals.power(root, numerator, budget));
  }
  if (isReal(base)) {
    if (isZero(base.re) && numerator === 0n) throw new Undefined('0^0');
    return real(rationals.power(base.re, numerator, budget));
  }
  const times = numerator < 0n ? -numerator : numerator;
  if (times > 512n) throw new Undecided('power of a complex number too large');
  let result: Exact = real(rationals.one);
  for (let k = 0n; k < times; k += 1n) {
    budget.spend();
    result = multiply(result, base);
  }
  return numerator < 0n ? divide(real(rationals.one), result) : result;
}

function factorial(value: Exact, budget: Budget): Exact | undefined {
  if (!isReal(value) || !isInteger(value.re)) return undefined;
  const n = value.re.numerator;
  if (n < 0n) throw new Undefined('factorial of a negative number');
  if (n > BigInt(budget.limits.maxFactorial)) throw new Undecided('factorial too large');
  let product = 1n;
  for (let k = 2n; k <= n; k += 1n) product *= k;
  budget.spend(Number(n));
  return real(rational(product));
}

function binomial(upper: Exact, lower: Exact, budget: Budget): Exact | undefined {
  if (!isReal(upper) || !isReal(lower) || !isInteger(upper.re) || !isInteger(lower.re)) return undefined;
  const [n, k] = [upper.re.numerator, lower.re.numerator];
  if (n < 0n || k < 0n || n > BigInt(budget.limits.maxFactorial)) throw new Undecided('binomial out of range');
  let result = 1n;
  for (let j = 1n; j <= k; j += 1n) result = (result * (n - k + j)) / j;
  budget.spend(Number(k));
  return real(rational(result));
}

function call(name: string, operands: Exact[], budget: Budget): Exact | undefined {
  const [first, second] = operands as [Exact, Exact | undefined];
  switch (name) {
    case 'root': {
      if (!second || !isReal(second) || !isInteger(second.re) || !isReal(first)) return undefined;
      const root = rationals.exactRoot(first.re, second.re.numerator, budget);
      if (root) return real(root);
      // sqrt(-4) = 2i is exact as well.
      if (second.re.numerator !== 2n || first.re.numerator >= 0n) return undefined;
      const imaginary = rationals.exactRoot(rationals.negate(first.re), 2n, budget);
      return imaginary && { re: zero, im: imaginary };
    }
    case 'factorial':
      return factorial(first, budget);
    case 'binomial':
      return binomial(first, second!, budget);
    case 'abs':
      if (isReal(first)) return first.re.numerator < 0n ? negate(first) : first;
      return call(
        'root',
        [multiply(first, { re: first.re, im: rationals.negate(first.im) }), real(rational(2n))],
        budget,
      );
    case 'floor':
      return isReal(first) ? real(rational(rationals.floor(first.re))) : undefined;
    case 'ceil':
      return isReal(first) ? real(rational(-rationals.floor(rationals.negate(first.re)))) : undefined;
    default:
      return undefined;
  }
}

/** The exact value at a point, or undefined when it is irrational as far as this function can see. */
export function evaluateExactly(expression: Expression, point: Point, budget: Budget): Exact | undefined {
  budget.spend();
  switch (expression.kind) {
    case 'number':
      return real(expression.value);
    case 'variable': {
      const value = point.get(expression.name);
      return value && real(value);
    }
    case 'constant':
      return expression.name === 'i' ? { re: zero, im: rationals.one } : undefined;
    case 'negate': {
      const operand = evaluateExactly(expression.operand, point, budget);
      return operand && negate(operand);
    }
    case 'sum':
    case 'product': {
      const parts = expression.kind === 'sum' ? expression.terms : expression.factors;
      const combine = expression.kind === 'sum' ? add : multiply;
      let total: Exact | undefined;
      for (const part of parts) {
        const value = evaluateExactly(part, point, budget);
        if (!value) return undefined;
        total = total ? combine(total, value) : value;
        budget.checkBits(Math.max(rationals.bitSize(total.re), rationals.bitSize(total.im)));
      }
      return total;
    }
    case 'quotient': {
      const numerator = evaluateExactly(expression.numerator, point, budget);
      const denominator = numerator && evaluateExactly(expression.denominator, point, budget);
      return denominator && divide(numerator, denominator);
    }
    case 'power': {
      const base = evaluateExactly(expression.base, point, budget);
      const exponent = base && evaluateExactly(expression.exponent, point, budget);
      return exponent && power(base, exponent, budget);
    }
    case 'call': {
      const operands: Exact[] = [];
      for (const operand of expression.operands) {
        const value = evaluateExactly(operand, point, budget);
        if (!value) return undefined;
        operands.push(value);
      }
      return call(expression.name, operands, budget);
    }
  }
}
