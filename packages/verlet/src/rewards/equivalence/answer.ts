import { type Budget, Undecided } from './budget.js';
import { type Expression, variablesOf } from './expression.js';
import { parseExpression } from './parser.js';

/** What kind of thing an answer is. */
export type Answer =
  | { readonly kind: 'expression'; readonly expression: Expression }
  /** `1, 2` or `\{1, 2\}`: order does not matter. */
  | { readonly kind: 'collection'; readonly isSet: boolean; readonly items: readonly Answer[] }
  /** A point or an interval; the brackets are part of the meaning. */
  | { readonly kind: 'tuple'; readonly open: string; readonly close: string; readonly items: readonly Answer[] }
  | { readonly kind: 'union'; readonly parts: readonly Answer[] }
  | { readonly kind: 'matrix'; readonly rows: readonly (readonly Answer[])[] }
  | { readonly kind: 'equation'; readonly left: Expression; readonly right: Expression }
  | {
      readonly kind: 'inequality';
      readonly relation: '<' | '<=' | '!=';
      readonly left: Expression;
      readonly right: Expression;
    }
  | { readonly kind: 'ratio'; readonly parts: readonly Expression[] }
  | { readonly kind: 'based'; readonly digits: string; readonly base: string }
  | { readonly kind: 'choice'; readonly letter: string }
  | { readonly kind: 'text'; readonly text: string };

const openers = '([{';
const closers = ')]}';

/** Splits at a separator that stands outside all brackets and environments. */
export function splitOutside(text: string, isSeparator: (text: string, at: number) => number): string[] {
  const parts: string[] = [];
  let depth = 0;
  let start = 0;
  for (let at = 0; at < text.length; at++) {
    if (text.startsWith('\\begin', at)) depth += 1;
    else if (text.startsWith('\\end', at)) depth -= 1;
    else if (openers.includes(text[at]!)) depth += 1;
    else if (closers.includes(text[at]!)) depth -= 1;
    else if (depth === 0) {
      const length = isSeparator(text, at);
      if (length > 0) {
        parts.push(text.slice(start, at));
        start = at + length;
        at = start - 1;
      }
    }
  }
  parts.push(text.slice(start));
  return parts;
}

const commas = (text: string, at: number): number => (text[at] === ',' || text[at] === ';' ? 1 : 0);

/** At the top level `1,234` is a number; `1, 234` and `(1,234)` are not. */
function topLevelCommas(text: string, at: number): number {
  if (text[at] !== ',') return text[at] === ';' ? 1 : 0;
  const before = /(?:^|[^\d.,])\d{1,3}(?:,\d{3})*$/.test(text.slice(0, at));
  return before && /^,\d{3}(?!\d)/.test(text.slice(at)) ? 0 : 1;
}

const withoutThousands = (text: string): string =>
  text.replace(
    /(^|[^\d.,])(\d{1,3}(?:,\d{3})+)(?![\d,])/g,
    (_, before: string, digits: string) => before + digits.replace(/,/g, ''),
  );

function word(length: number, ...words: string[]) {
  return (text: string, at: number): number =>
    words.some((w) => text.startsWith(w, at) && !/[a-zA-Z]/.test(text[at + length] ?? '')) ? length : 0;
}

/** The bracket pair that spans the whole text, if one does. */
function outerBrackets(text: string): { open: string; close: string; inner: string } | undefined {
  const pairs: [string, string][] = [
    ['\\{', '\\}'],
    ['\\lbrace', '\\rbrace'],
    ['{', '}'],
    ['(', ')'],
    ['[', ']'],
    ['(', ']'],
    ['[', ')'],
  ];
  for (const [open, close] of pairs) {
    if (!text.startsWith(open) || !text.endsWith(close)) continue;
    const inner = text.slice(open.length, text.length - close.length);
    let depth = 0;
    let spans = true;
    for (const character of inner) {
      if (openers.includes(character)) depth += 1;
      else if (closers.includes(character) && --depth < 0) spans = false;
    }
    if (spans && depth === 0) return { open, close, inner };
  }
  return undefined;
}

function parseMatrix(text: string, budget: Budget): Answer | undefined {
  const match = /^\\begin\{([pbvBV]?matrix|array)\}(?:\{[^}]*\})?([\s\S]*)\\end\{\1\}$/.exec(text);
  if (!match || match[2]!.includes('\\begin')) return undefined;
  const rows = match[2]!
    .replace(/\\hline/g, '')
    .split(/\\\\/)
    .map((row) => row.trim())
    .filter(Boolean);
  return {
    kind: 'matrix',
    rows: rows.map((row) => row.split('&').map((cell) => parseAnswer(cell.trim(), budget, false))),
  };
}

function interval(low: Expression, lowClosed: boolean, high: Expression, highClosed: boolean): Answer {
  const items: Answer[] = [
    { kind: 'expression', expression: low },
    { kind: 'expression', expression: high },
  ];
  return { kind: 'tuple', open: lowClosed ? '[' : '(', close: highClosed ? ']' : ')', items };
}

const infinity: Expression = { kind: 'constant', name: 'infinity' };
const isName = (expression: Expression): boolean => expression.kind === 'variable';

/** `x \ge 3`, `1 < x \le 2`: intervals when one variable stands alone, inequalities otherwise. */
function parseRelation(text: string, budget: Budget): Answer | undefined {
  const relations: string[] = [];
  const operands = splitOutside(text, (whole, at) => {
    const match = /^(?:\\(?:le|ge|ne|lt|gt)(?![a-zA-Z])|<=|>=|!=|<|>)/.exec(whole.slice(at, at + 4));
    if (!match) return 0;
    relations.push(
      match[0]
        .replace('\\le', '<=')
        .replace('\\ge', '>=')
        .replace('\\ne', '!=')
        .replace('\\lt', '<')
        .replace('\\gt', '>'),
    );
    return match[0].length;
  });
  if (relations.length === 0 || relations.length > 2) return undefined;
  const sides = operands.map((side) => parseExpression(withoutThousands(side), budget));
  if (relations.length === 1) {
    const [left, right] = sides as [Expression, Expression];
    const relation = relations[0]!;
    if (relation === '!=') return { kind: 'inequality', relation, left, right };
    const [small, large] = relation.startsWith('<') ? [left, right] : [right, left];
    const closed = relation.endsWith('=');
    if (isName(small) && variablesOf(large).size === 0)
      return interval({ kind: 'negate', operand: infinity }, false, large, closed);
    if (isName(large) && variablesOf(small).size === 0) return interval(small, closed, infinity, false);
    return { kind: 'inequality', relation: closed ? '<=' : '<', left: small, right: large };
  }
  const [first, second] = relations as [string, string];
  if (first[0] !== second[0] || first === '!=' || !isName(sides[1]!)) return undefined;
  return first.startsWith('<')
    ? interval(sides[0]!, first === '<=', sides[2]!, second === '<=')
    : interval(sides[2]!, second === '>=', sides[0]!, first === '>=');
}

function parseEquation(text: string, budget: Budget): Answer | undefined {
  const sides = splitOutside(text, (whole, at) => (whole[at] === '=' && !'<>!'.includes(whole[at - 1] ?? ' ') ? 1 : 0));
  if (sides.length < 2) return undefined;
  const last = sides[sides.length - 1]!.trim();
  const name = /^\s*(?:[a-zA-Z]|\\[a-zA-Z]+)(?:_\{?\w+\}?)?'?\s*(?:\([a-zA-Z](?:,\s*[a-zA-Z])*\))?\s*$/.test(sides[0]!);
  // `S = \{1, 2\}`, `(x, y) = (1, 2)`: the value is a structure, the left side only names it.
  const pointName = /^\s*\(\s*[a-zA-Z](?:\s*,\s*[a-zA-Z])*\s*\)\s*$/.test(sides[0]!);
  const value = parseAnswer(last, budget, false);
  if (pointName && value.kind === 'tuple') return value;
  if (name && value.kind !== 'expression') return value.kind === 'text' ? undefined : value;
  if (value.kind !== 'expression') return undefined;
  const call = /^\s*([a-zA-Z])\s*\([a-zA-Z](?:,\s*[a-zA-Z])*\)\s*$/.exec(sides[0]!);
  const left: Expression = call
    ? { kind: 'variable', name: `${call[1]!}()` }
    : parseExpression(withoutThousands(sides[0]!), budget);
  return { kind: 'equation', left, right: value.expression };
}

function expandPlusMinus(text: string): [string, string] | undefined {
  if (!/\\(?:pm|mp)(?![a-zA-Z])/.test(text)) return undefined;
  const plus = text.replace(/\\pm(?![a-zA-Z])/g, '+').replace(/\\mp(?![a-zA-Z])/g, '-');
  const minus = text.replace(/\\pm(?![a-zA-Z])/g, '-').replace(/\\mp(?![a-zA-Z])/g, '+');
  return [plus, minus];
}

/** Reads a cleaned answer. What cannot be read as mathematics is text, compared as text. */
export function parseAnswer(text: string, budget: Budget, isTopLevel = true): Answer {
  budget.spend(8);
  const trimmed = text.trim();
  const choice = /^\(?\s*([A-J])\s*(?:\)|\.|:)?$/.exec(trimmed);
  if (choice && isTopLevel) return { kind: 'choice', letter: choice[1]! };
  if (trimmed === '\\emptyset' || trimmed === '\\varnothing' || trimmed === '\\{\\}')
    return { kind: 'collection', isSet: true, items: [] };
  if (/^(?:\\mathbb\s*\{?\s*R\s*\}?|\\R|\\Reals|all real numbers)$/.test(trimmed)) {
    return interval({ kind: 'negate', operand: infinity }, false, infinity, false);
  }
  try {
    return parseStructure(trimmed, budget, isTopLevel);
  } catch (error) {
    if (!(error instanceof Undecided)) throw error;
    return { kind: 'text', text: trimmed };
  }
}

function parseStructure(written: string, budget: Budget, isTopLevel: boolean): Answer {
  const text = written.replace(/\\langle(?![a-zA-Z])/g, '(').replace(/\\rangle(?![a-zA-Z])/g, ')');
  const matrix = parseMatrix(text, budget);
  if (matrix) return matrix;
  const belongs = /^[a-zA-Z]\s*\\in(?![a-zA-Z])([\s\S]*)$/.exec(text);
  if (belongs) return parseStructure(belongs[1]!.trim(), budget, isTopLevel);
  const items = splitOutside(text, isTopLevel ? topLevelCommas : commas);
  if (items.length > 1) return collection(items, false, budget);
  const unionParts = splitOutside(text, word(4, '\\cup'));
  if (unionParts.length > 1)
    return { kind: 'union', parts: unionParts.map((part) => parseAnswer(part, budget, false)) };
  const brackets = outerBrackets(text);
  if (brackets) {
    const inner = splitOutside(brackets.inner, commas);
    if (brackets.open === '\\{' || brackets.open === '\\lbrace' || (brackets.open === '{' && inner.length > 1))
      return collection(inner, true, budget);
    if (inner.length > 1) {
      return {
        kind: 'tuple',
        open: brackets.open,
        close: brackets.close,
        items: inner.map((item) => parseAnswer(item, budget, false)),
      };
    }
  }
  const signs = expandPlusMinus(text);
  if (signs)
    return { kind: 'collection', isSet: false, items: signs.map((variant) => parseAnswer(variant, budget, false)) };
  const based = /^([0-9A-F]+)_\{?\s*(\d{1,2})\s*\}?$/.exec(text);
  if (based) return { kind: 'based', digits: based[1]!, base: based[2]! };
  const relation = parseRelation(text, budget);
  if (relation) return relation;
  const equation = parseEquation(text, budget);
  if (equation) return equation;
  const ratio = splitOutside(text, (whole, at) => (whole[at] === ':' ? 1 : 0));
  if (ratio.length > 1)
    return { kind: 'ratio', parts: ratio.map((part) => parseExpression(withoutThousands(part), budget)) };
  // A run of letters is a word, not a product of variables: `even`, `Monday`.
  if (
    /^[A-Za-z][A-Za-z\s'.-]*$/.test(text) &&
    /[A-Za-z]{3}/.test(text) &&
    !/^(?:pi|sqrt|infinity|inf|sin|cos|tan|ln|log|exp)\b/.test(text)
  )
    throw new Undecided('a word');
  return { kind: 'expression', expression: parseExpression(isTopLevel ? withoutThousands(text) : text, budget) };
}

function collection(items: readonly string[], isSet: boolean, budget: Budget): Answer {
  const parsed = items
    .filter((item) => item.trim())
    .map((item) => parseAnswer(isSet ? item : withoutThousands(item), budget, false));
  // `1 \pm \sqrt2, 5` is a list of three.
  const flat = parsed.flatMap((item) => (item.kind === 'collection' && !item.isSet ? item.items : [item]));
  return { kind: 'collection', isSet, items: flat };
}
