import { type Budget, Undefined } from './budget.js';
import { type Exact, evaluateExactly, isReal, multiply as multiplyExact, type Point, sameExact } from './exact.js';
import { type Expression, infinitySign, sameTree, variablesOf } from './expression.js';
import { Evaluator, isNegligible, multiply, nearlySame, type Value } from './numeric.js';
import { bitLength, isZero, rational } from './rational.js';

/** How a verdict was reached; `undecided` counts as not equal. */
export type Evidence = 'string' | 'exact' | 'numeric' | 'sampled' | 'structure' | 'text' | 'undecided';

export interface Verdict {
  readonly equal: boolean;
  readonly evidence: Evidence;
  /** Why it is undecided. */
  readonly reason?: string;
}

export const verdict = (equal: boolean, evidence: Evidence): Verdict => ({ equal, evidence });
/** Deterministic sample points: the same pair gets the same verdict on every machine. */
function* samplePoints(variables: readonly string[], negatives: boolean): Generator<Point> {
  let state = 0x2545f491;
  const next = (limit: number) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return (state >>> 8) % limit;
  };
  for (;;) {
    const point = new Map<string, ReturnType<typeof rational>>();
    // Between 0 and 3, away from the integers where poles and branch points live.
    for (const name of variables)
      point.set(name, rational(BigInt(17 + next(2_900) * (negatives && next(2) ? -1 : 1)), 997n));
    yield point;
  }
}

/** Whole numbers, different for each variable; the first variable takes small and large values in turn. */
function* wholePoints(variables: readonly string[]): Generator<Point> {
  for (let round = 0; ; round++) {
    yield new Map(variables.map((name, index) => [name, rational(BigInt(4 + ((round * 7 + index * 3) % 13)))]));
  }
}

const wantedPoints = 5;

/** The value at a point: exact when it can be, 66 digits otherwise; undefined outside the domain. */
function valueAt(
  expression: Expression,
  point: Point,
  budget: Budget,
  allowComplex: boolean,
): Exact | Value | undefined {
  try {
    return evaluateExactly(expression, point, budget) ?? new Evaluator(point, budget, allowComplex).value(expression);
  } catch (error) {
    if (error instanceof Undefined) return undefined;
    throw error;
  }
}

const isExact = (value: Exact | Value): value is Exact => typeof value.re === 'object';

function sameAt(
  left: Expression,
  right: Expression,
  point: Point,
  budget: Budget,
  allowComplex: boolean,
): Evidence | 'different' | 'nowhere' {
  const a = valueAt(left, point, budget, allowComplex);
  const b = valueAt(right, point, budget, allowComplex);
  if (!a || !b) return 'nowhere';
  if (isExact(a) && isExact(b)) return sameExact(a, b) ? 'exact' : 'different';
  // A fraction finer than the numeric precision may be a long approximation: 80 digits of pi are not pi.
  const exact = isExact(a) ? a : isExact(b) ? b : undefined;
  if (point.size === 0 && exact && bitLength(exact.re.denominator) > 160) return 'different';
  const evaluator = new Evaluator(point, budget, allowComplex);
  return nearlySame(isExact(a) ? evaluator.value(left) : a, isExact(b) ? evaluator.value(right) : b)
    ? 'numeric'
    : 'different';
}

/** Equality of two expressions as functions of their variables. */
export function compareExpressions(left: Expression, right: Expression, budget: Budget): Verdict {
  if (sameTree(left, right)) return verdict(true, 'structure');
  const [leftSign, rightSign] = [infinitySign(left), infinitySign(right)];
  if (leftSign !== undefined || rightSign !== undefined) return verdict(leftSign === rightSign, 'structure');
  const variables = [...variablesOf(right, variablesOf(left))].sort();
  if (variables.length === 0) {
    const outcome = sameAt(left, right, new Map(), budget, true);
    return verdict(
      outcome === 'exact' || outcome === 'numeric',
      outcome === 'exact' || outcome === 'different' ? 'exact' : 'numeric',
    );
  }
  const agreement = (points: Iterable<Point>): number | 'different' => {
    let agreed = 0;
    let tries = 0;
    for (const point of points) {
      if (agreed === wantedPoints || ++tries > 3 * wantedPoints) break;
      const outcome = sameAt(left, right, point, budget, false);
      if (outcome === 'different') return 'different';
      if (outcome !== 'nowhere') agreed += 1;
    }
    return agreed;
  };
  // Positive points first; then mixed signs, where only points inside both domains count, so that sqrt(x^2) is not x.
  const positive = agreement(samplePoints(variables, false));
  if (positive === 'different') return verdict(false, 'sampled');
  if (positive >= 2) return verdict(agreement(samplePoints(variables, true)) !== 'different', 'sampled');
  // Factorials and (-1)^n have values at whole numbers only.
  const whole = agreement(wholePoints(variables));
  if (whole === 'different' || whole >= wantedPoints) return verdict(whole !== 'different', 'sampled');
  return { equal: false, evidence: 'undecided', reason: 'no common domain found' };
}

/** Whether one expression is a constant multiple of the other (`positive`: by a positive constant). */
export function proportional(left: Expression, right: Expression, budget: Budget, positive: boolean): boolean {
  const variables = [...variablesOf(right, variablesOf(left))].sort();
  let reference: [Exact | Value, Exact | Value] | undefined;
  let agreed = 0;
  let tries = 0;
  const numeric = (value: Exact | Value, expression: Expression, point: Point): Value =>
    isExact(value) ? new Evaluator(point, budget, false).value(expression) : value;
  let referencePoint: Point = new Map();
  for (const point of samplePoints(variables, true)) {
    if (agreed === wantedPoints || ++tries > 4 * wantedPoints) break;
    const [a, b] = [valueAt(left, point, budget, false), valueAt(right, point, budget, false)];
    if (!a || !b) continue;
    const vanishes = [a, b].map((value) => (isExact(value) ? isReal(value) && isZero(value.re) : isNegligible(value)));
    if (vanishes[0] !== vanishes[1]) return false;
    if (vanishes[0]) continue;
    if (!reference) {
      [reference, referencePoint] = [[a, b], point];
      if (positive && (isExact(a) ? a.re.numerator > 0n : a.re > 0n) !== (isExact(b) ? b.re.numerator > 0n : b.re > 0n))
        return false;
    } else {
      const [a0, b0] = reference;
      if ([a, b, a0, b0].every(isExact)) {
        if (!sameExact(multiplyExact(a as Exact, b0 as Exact), multiplyExact(b as Exact, a0 as Exact))) return false;
      } else {
        const cross = multiply(numeric(a, left, point), numeric(b0, right, referencePoint));
        if (!nearlySame(cross, multiply(numeric(b, right, point), numeric(a0, left, referencePoint)))) return false;
      }
    }
    agreed += 1;
  }
  return agreed >= 3;
}
