import type { Rational } from './rational.js';

/** A parsed mathematical expression. */
export type Expression =
  | { readonly kind: 'number'; readonly value: Rational }
  | { readonly kind: 'variable'; readonly name: string }
  | { readonly kind: 'constant'; readonly name: 'pi' | 'e' | 'i' | 'infinity' }
  | { readonly kind: 'sum'; readonly terms: readonly Expression[] }
  | { readonly kind: 'product'; readonly factors: readonly Expression[] }
  | { readonly kind: 'quotient'; readonly numerator: Expression; readonly denominator: Expression }
  | { readonly kind: 'power'; readonly base: Expression; readonly exponent: Expression }
  | { readonly kind: 'negate'; readonly operand: Expression }
  | { readonly kind: 'call'; readonly name: string; readonly operands: readonly Expression[] };

export function children(expression: Expression): readonly Expression[] {
  switch (expression.kind) {
    case 'sum':
      return expression.terms;
    case 'product':
      return expression.factors;
    case 'quotient':
      return [expression.numerator, expression.denominator];
    case 'power':
      return [expression.base, expression.exponent];
    case 'negate':
      return [expression.operand];
    case 'call':
      return expression.operands;
    default:
      return [];
  }
}

export function variablesOf(expression: Expression, found = new Set<string>()): Set<string> {
  if (expression.kind === 'variable') found.add(expression.name);
  for (const child of children(expression)) variablesOf(child, found);
  return found;
}

/** The same tree written twice: what is left to say when a value is too large to compute. */
export function sameTree(a: Expression, b: Expression): boolean {
  if (a.kind !== b.kind) return false;
  if (a.kind === 'number' && b.kind === 'number') {
    return a.value.numerator === b.value.numerator && a.value.denominator === b.value.denominator;
  }
  if ('name' in a && 'name' in b && a.name !== b.name) return false;
  const left = children(a);
  const right = children(b);
  return left.length === right.length && left.every((child, index) => sameTree(child, right[index]!));
}

/** +1 or -1 for a signed infinity, undefined for everything else. */
export function infinitySign(expression: Expression): 1 | -1 | undefined {
  if (expression.kind === 'constant') return expression.name === 'infinity' ? 1 : undefined;
  if (expression.kind === 'negate') {
    const sign = infinitySign(expression.operand);
    return sign === undefined ? undefined : (-sign as 1 | -1);
  }
  return undefined;
}
