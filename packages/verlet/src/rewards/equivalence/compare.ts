import { type Answer, parseAnswer } from './answer.js';
import { Budget, defaultLimits, type Limits, Undecided, Undefined } from './budget.js';
import { cleanAnswer } from './clean.js';
import { type Expression, variablesOf } from './expression.js';
import { rational } from './rational.js';
import { compareExpressions, proportional, type Verdict, verdict } from './sampling.js';

const difference = (left: Expression, right: Expression): Expression => ({
  kind: 'sum',
  terms: [left, { kind: 'negate', operand: right }],
});

function sameCollection(left: readonly Answer[], right: readonly Answer[], budget: Budget, isSet = true): boolean {
  const distinct = (items: readonly Answer[]) =>
    items.filter(
      (item, index) => !isSet || !items.slice(0, index).some((other) => compareAnswers(item, other, budget).equal),
    );
  const a = distinct(left);
  const rest = distinct(right);
  if (a.length !== rest.length) return false;
  return a.every((item) => {
    const at = rest.findIndex((candidate) => compareAnswers(item, candidate, budget).equal);
    if (at >= 0) rest.splice(at, 1);
    return at >= 0;
  });
}

const inOrder = (left: readonly Answer[], right: readonly Answer[], budget: Budget): boolean =>
  left.length === right.length && left.every((item, index) => compareAnswers(item, right[index]!, budget).equal);

/** Spelling that words may differ in. Digits keep their distance and their marks: `1 23` is not `12 3`. */
const foldText = (text: string): string =>
  text
    .toLowerCase()
    .replace(/(?<=\d)\s+(?=\d)/g, '_')
    .replace(/[\s{}\\$"'`]+|[.,]+$/g, '');

/** `x = 5` where the other side just says 5, `y = 3x` against `3x`. */
function assignedValue(answer: Answer): { name: string; value: Expression } | undefined {
  if (answer.kind !== 'equation') return undefined;
  for (const [side, value] of [
    [answer.left, answer.right],
    [answer.right, answer.left],
  ] as const) {
    if (side.kind === 'variable' && !variablesOf(value).has(side.name)) return { name: side.name, value };
  }
  return undefined;
}

export function compareAnswers(left: Answer, right: Answer, budget: Budget): Verdict {
  budget.spend(4);
  if (left.kind === 'expression' && right.kind === 'expression')
    return compareExpressions(left.expression, right.expression, budget);
  if (left.kind === 'text' || right.kind === 'text') {
    const textOf = (answer: Answer) => (answer.kind === 'text' ? answer.text : undefined);
    const [a, b] = [textOf(left), textOf(right)];
    return verdict(a !== undefined && b !== undefined && foldText(a) === foldText(b) && foldText(a).length > 0, 'text');
  }
  if (left.kind === 'equation' || right.kind === 'equation') return compareEquations(left, right, budget);
  if (left.kind === 'collection' && right.kind === 'collection') {
    // A set has no repetitions; a list such as the roots of a polynomial may have.
    const isSet = left.isSet || right.isSet;
    const [a, b] = [left.items, right.items].map((items) => namedValues(items) ?? items) as [
      readonly Answer[],
      readonly Answer[],
    ];
    return verdict(sameCollection(a, b, budget, isSet), 'structure');
  }
  for (const [list, other] of [
    [left, right],
    [right, left],
  ] as const) {
    if (list.kind !== 'collection') continue;
    // `x < 1 or x > 2` is a union in other words.
    if (other.kind === 'union' && !list.isSet)
      return verdict(sameCollection(list.items, other.parts, budget), 'structure');
    // `1, 2` for the point (1, 2); `x = 1, y = 2` as well, by the alphabet.
    if (other.kind === 'tuple' && !list.isSet && other.open !== '[')
      return verdict(inOrder(byName(list.items), other.items, budget), 'structure');
    return verdict(list.items.length === 1 && compareAnswers(list.items[0]!, other, budget).equal, 'structure');
  }
  if (left.kind === 'tuple' && right.kind === 'tuple') {
    return verdict(
      left.open === right.open && left.close === right.close && inOrder(left.items, right.items, budget),
      'structure',
    );
  }
  if (left.kind === 'union' && right.kind === 'union')
    return verdict(sameCollection(left.parts, right.parts, budget), 'structure');
  if (left.kind === 'matrix' && right.kind === 'matrix') {
    const same =
      left.rows.length === right.rows.length &&
      left.rows.every((row, index) => inOrder(row, right.rows[index]!, budget));
    return verdict(same, 'structure');
  }
  if (left.kind === 'inequality' && right.kind === 'inequality') {
    const same =
      left.relation === right.relation &&
      proportional(
        difference(left.left, left.right),
        difference(right.left, right.right),
        budget,
        left.relation !== '!=',
      );
    return verdict(same, 'sampled');
  }
  if (left.kind === 'ratio' && right.kind === 'ratio') return compareRatios(left.parts, right.parts, budget);
  if (left.kind === 'based' && right.kind === 'based')
    return verdict(
      left.base === right.base && left.digits.replace(/^0+/, '') === right.digits.replace(/^0+/, ''),
      'structure',
    );
  if (left.kind === 'choice' && right.kind === 'choice') return verdict(left.letter === right.letter, 'structure');
  return verdict(false, 'structure');
}

function compareEquations(left: Answer, right: Answer, budget: Budget): Verdict {
  if (left.kind === 'equation' && right.kind === 'equation') {
    const [a, b] = [assignedValue(left), assignedValue(right)];
    if (a && b && a.name === b.name) return compareExpressions(a.value, b.value, budget);
    if (a && b && (a.name.endsWith('()') || b.name.endsWith('()'))) return compareExpressions(a.value, b.value, budget);
    return verdict(
      proportional(difference(left.left, left.right), difference(right.left, right.right), budget, false),
      'sampled',
    );
  }
  const [equation, other] = left.kind === 'equation' ? [left, right] : [right, left];
  if (other.kind === 'collection') return verdict(sameCollection([equation], other.items, budget), 'structure');
  const assigned = assignedValue(equation);
  if (!assigned || other.kind !== 'expression') return verdict(false, 'structure');
  return compareExpressions(assigned.value, other.expression, budget);
}

function compareRatios(left: readonly Expression[], right: readonly Expression[], budget: Budget): Verdict {
  if (left.length !== right.length) return verdict(false, 'structure');
  const cross = (a: Expression, b: Expression): Expression => ({ kind: 'product', factors: [a, b] });
  const same = left.every(
    (part, index) => compareExpressions(cross(part, right[0]!), cross(left[0]!, right[index]!), budget).equal,
  );
  return verdict(same, 'exact');
}

/** A list of assignments to different names has an order of its own. */
function namedValues(items: readonly Answer[]): readonly Answer[] | undefined {
  const assigned = items.map(assignedValue);
  const names = new Set(assigned.map((entry) => entry?.name));
  // `x = 1 or x = 2`: the name carries nothing; `x = 1, y = 2`: it does, and the equations are compared whole.
  if (names.size !== 1 || assigned.some((entry) => !entry)) return undefined;
  return assigned.map((entry) => ({ kind: 'expression', expression: entry!.value }));
}

function byName(items: readonly Answer[]): readonly Answer[] {
  const assigned = items.map(assignedValue);
  if (assigned.some((entry) => !entry)) return items;
  const sorted = [...(assigned as { name: string; value: Expression }[])].sort((a, b) => (a.name < b.name ? -1 : 1));
  return sorted.map((entry) => ({ kind: 'expression', expression: entry.value }));
}

const hundredth = (answer: Answer): Answer =>
  answer.kind === 'expression'
    ? {
        kind: 'expression',
        expression: {
          kind: 'quotient',
          numerator: answer.expression,
          denominator: { kind: 'number', value: rational(100n) },
        },
      }
    : answer;

/**
 * Whether two written answers mean the same: `\frac{1}{2}` and `0.5`, `(x+1)^2` and `x^2+2x+1`, `x=5` and `5`.
 * Numbers are compared exactly, so near misses stay misses; work is bounded by `limits` whatever the model wrote.
 */
export function compare(prediction: string, reference: string, limits: Partial<Limits> = {}): Verdict {
  if (prediction.trim() === reference.trim()) return verdict(reference.trim().length > 0, 'string');
  const budget = new Budget({ ...defaultLimits, ...limits });
  if (Math.max(prediction.length, reference.length) > budget.limits.maxCharacters) {
    return { equal: false, evidence: 'undecided', reason: `longer than ${budget.limits.maxCharacters} characters` };
  }
  try {
    const [a, b] = [cleanAnswer(prediction), cleanAnswer(reference)];
    if (!a.text || !b.text) return verdict(false, 'string');
    // Only units that are known on both sides can contradict each other: "apples" and "red apples" do not.
    if (a.unit && b.unit && a.unit !== b.unit && !a.unit.includes('?') && !b.unit.includes('?'))
      return verdict(false, 'structure');
    if (a.text === b.text) return verdict(true, 'string');
    const [left, right] = [parseAnswer(a.text, budget), parseAnswer(b.text, budget)];
    const plain = compareAnswers(left, right, budget);
    if (plain.equal || a.isPercent === b.isPercent) return plain;
    return a.isPercent
      ? compareAnswers(hundredth(left), right, budget)
      : compareAnswers(left, hundredth(right), budget);
  } catch (error) {
    if (error instanceof Undecided || error instanceof Undefined)
      return { equal: false, evidence: 'undecided', reason: error.message };
    throw error;
  }
}

export const isEquivalent = (prediction: string, reference: string, limits: Partial<Limits> = {}): boolean =>
  compare(prediction, reference, limits).equal;
