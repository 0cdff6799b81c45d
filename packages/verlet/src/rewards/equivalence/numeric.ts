import { type Budget, Undecided, Undefined } from './budget.js';
import { evaluateExactly, isReal, type Point } from './exact.js';
import type { Expression } from './expression.js';
import * as fixed from './fixed.js';
import { compareRationals, negate as negateRational, rational } from './rational.js';

/** A complex fixed-point number. */
export interface Value {
  readonly re: bigint;
  readonly im: bigint;
}

const smallest = rational(1n, 1n << 180n);
const one: Value = { re: fixed.unit, im: 0n };

const add = (a: Value, b: Value): Value => ({ re: a.re + b.re, im: a.im + b.im });
const negate = (a: Value): Value => ({ re: -a.re, im: -a.im });

export function multiply(a: Value, b: Value): Value {
  if (a.im === 0n && b.im === 0n) return { re: fixed.multiply(a.re, b.re), im: 0n };
  return {
    re: fixed.multiply(a.re, b.re) - fixed.multiply(a.im, b.im),
    im: fixed.multiply(a.re, b.im) + fixed.multiply(a.im, b.re),
  };
}

function divide(a: Value, b: Value): Value {
  if (a.im === 0n && b.im === 0n) return { re: fixed.divide(a.re, b.re), im: 0n };
  const norm = fixed.multiply(b.re, b.re) + fixed.multiply(b.im, b.im);
  const scaled = multiply(a, { re: b.re, im: -b.im });
  return { re: fixed.divide(scaled.re, norm), im: fixed.divide(scaled.im, norm) };
}

export const nearlySame = (a: Value, b: Value): boolean =>
  fixed.nearlyEqual(a.re, b.re) && fixed.nearlyEqual(a.im, b.im);
export const isNegligible = (a: Value): boolean =>
  fixed.absolute(a.re) <= fixed.negligible && fixed.absolute(a.im) <= fixed.negligible;

function integerPower(base: Value, exponent: bigint, budget: Budget): Value {
  const bits = (fixed.absolute(base.re) + fixed.absolute(base.im)) >> fixed.precision;
  let times = exponent < 0n ? -exponent : exponent;
  if (times > 4_096n) throw new Undecided('exponent too large');
  budget.checkBits(bits.toString(2).length * Number(times));
  let square = base;
  let result = one;
  for (; times > 0n; times >>= 1n) {
    budget.spend(4);
    if (times & 1n) result = multiply(result, square);
    square = multiply(square, square);
  }
  const value = exponent < 0n ? divide(one, result) : result;
  if (isNegligible(value) && !isNegligible(base)) throw new Undecided('power too small to tell from zero');
  return value;
}

function squareRoot(a: Value): Value {
  if (a.im === 0n) return a.re >= 0n ? { re: fixed.squareRoot(a.re), im: 0n } : { re: 0n, im: fixed.squareRoot(-a.re) };
  const modulus = fixed.squareRoot(fixed.multiply(a.re, a.re) + fixed.multiply(a.im, a.im));
  const re = fixed.squareRoot((modulus + a.re) >> 1n);
  const im = fixed.squareRoot((modulus - a.re) >> 1n);
  return { re, im: a.im < 0n ? -im : im };
}

/** Real arguments only: branch cuts of complex functions are not worth a wrong reward. */
function requireReal(a: Value): bigint {
  if (fixed.absolute(a.im) > fixed.negligible) throw new Undecided('function of a complex number');
  return a.re;
}

function exponential(a: Value): Value {
  const size = fixed.exponential(a.re);
  if (a.im === 0n) return { re: size, im: 0n };
  return { re: fixed.multiply(size, fixed.cosine(a.im)), im: fixed.multiply(size, fixed.sine(a.im)) };
}

/** The evaluator of one expression at one point; `allowComplex` false means that `\sqrt{-1}` has no value. */
export class Evaluator {
  constructor(
    private readonly point: Point,
    private readonly budget: Budget,
    private readonly allowComplex: boolean,
  ) {}

  value(expression: Expression): Value {
    this.budget.spend(4);
    switch (expression.kind) {
      case 'number': {
        const { value } = expression;
        const size = value.numerator < 0n ? negateRational(value) : value;
        if (size.numerator !== 0n && compareRationals(size, smallest) < 0) throw new Undecided('number too small');
        return { re: fixed.fromRational(value), im: 0n };
      }
      case 'variable': {
        const value = this.point.get(expression.name);
        if (!value) throw new Undecided(`no value for ${expression.name}`);
        return { re: fixed.fromRational(value), im: 0n };
      }
      case 'constant':
        if (expression.name === 'pi') return { re: fixed.pi, im: 0n };
        if (expression.name === 'e') return { re: fixed.exponential(fixed.unit), im: 0n };
        if (expression.name === 'i') return { re: 0n, im: fixed.unit };
        throw new Undecided('infinity is not a number');
      case 'negate':
        return negate(this.value(expression.operand));
      case 'sum':
        return expression.terms.map((term) => this.value(term)).reduce(add);
      case 'product':
        return expression.factors.map((factor) => this.value(factor)).reduce(multiply);
      case 'quotient':
        return divide(this.value(expression.numerator), this.value(expression.denominator));
      case 'power':
        return this.power(expression.base, expression.exponent);
      case 'call':
        return this.call(expression.name, expression.operands);
    }
  }

  private power(base: Expression, exponent: Expression): Value {
    const exact = evaluateExactly(exponent, this.point, this.budget);
    const value = this.value(base);
    if (exact && isReal(exact)) {
      const { numerator, denominator } = exact.re;
      if (denominator === 1n) return integerPower(value, numerator, this.budget);
      if (denominator <= 64n) return integerPower(this.root(value, denominator), numerator, this.budget);
    }
    this.budget.spend(100);
    const logarithm = fixed.logarithm(requireReal(value));
    return exponential(multiply({ re: logarithm, im: 0n }, this.value(exponent)));
  }

  private root(value: Value, degree: bigint): Value {
    if (degree === 2n) {
      if (value.im === 0n && value.re < 0n && !this.allowComplex)
        throw new Undefined('square root of a negative number');
      return squareRoot(value);
    }
    const real = requireReal(value);
    if (fixed.absolute(real) <= fixed.negligible) return { re: 0n, im: 0n };
    if (real < 0n && degree % 2n === 0n) throw new Undefined('even root of a negative number');
    this.budget.spend(100);
    const size = fixed.exponential(fixed.logarithm(fixed.absolute(real)) / degree);
    return { re: real < 0n ? -size : size, im: 0n };
  }

  private call(name: string, operands: readonly Expression[]): Value {
    this.budget.spend(50);
    // Of whole numbers they are exact, and this evaluator is asked only for what is not.
    if (name === 'factorial' || name === 'binomial') return this.exactCall(name, operands);
    const first = this.value(operands[0]!);
    if (name === 'root') {
      const degree = evaluateExactly(operands[1]!, this.point, this.budget);
      if (degree?.re.denominator !== 1n || degree.re.numerator < 1n)
        throw new Undecided('root whose degree is not a positive integer');
      return this.root(first, degree.re.numerator);
    }
    if (name === 'exp') return exponential(first);
    if (name === 'abs' && first.im !== 0n) {
      return { re: fixed.squareRoot(fixed.multiply(first.re, first.re) + fixed.multiply(first.im, first.im)), im: 0n };
    }
    const base = operands[1] && name === 'log' ? requireReal(this.value(operands[1])) : undefined;
    return { re: this.realFunction(name, requireReal(first), base), im: 0n };
  }

  private exactCall(name: string, operands: readonly Expression[]): Value {
    const exact = evaluateExactly({ kind: 'call', name, operands }, this.point, this.budget);
    if (!exact) throw new Undefined(`${name} of a number that is not whole`);
    return { re: fixed.fromRational(exact.re), im: fixed.fromRational(exact.im) };
  }

  private realFunction(name: string, x: bigint, base: bigint | undefined): bigint {
    switch (name) {
      case 'sin':
        return fixed.sine(x);
      case 'cos':
        return fixed.cosine(x);
      case 'tan':
        return fixed.divide(fixed.sine(x), fixed.cosine(x));
      case 'cot':
        return fixed.divide(fixed.cosine(x), fixed.sine(x));
      case 'sec':
        return fixed.divide(fixed.unit, fixed.cosine(x));
      case 'csc':
        return fixed.divide(fixed.unit, fixed.sine(x));
      case 'arcsin':
        return fixed.arcsine(x);
      case 'arccos':
        return fixed.pi / 2n - fixed.arcsine(x);
      case 'arctan':
        return fixed.arctangent(x);
      case 'sinh':
        return (fixed.exponential(x) - fixed.exponential(-x)) >> 1n;
      case 'cosh':
        return (fixed.exponential(x) + fixed.exponential(-x)) >> 1n;
      case 'tanh': {
        const [up, down] = [fixed.exponential(x), fixed.exponential(-x)];
        return fixed.divide(up - down, up + down);
      }
      case 'ln':
        return fixed.logarithm(x);
      case 'log': // without a base: ten, as school and competition problems mean it
        return fixed.divide(fixed.logarithm(x), fixed.logarithm(base ?? fixed.fromInteger(10)));
      case 'abs':
        return fixed.absolute(x);
      case 'floor':
      case 'ceil': {
        const nearest = ((x + (fixed.unit >> 1n)) >> fixed.precision) << fixed.precision;
        if (fixed.nearlyEqual(x, nearest)) return nearest;
        const lower = (x >> fixed.precision) << fixed.precision;
        return name === 'floor' ? lower : lower + fixed.unit;
      }
      default:
        throw new Undecided(`no numeric ${name}`);
    }
  }
}
