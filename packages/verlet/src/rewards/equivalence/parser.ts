import { type Budget, Undecided } from './budget.js';
import type { Expression } from './expression.js';
import { type Token, tokenize } from './lexer.js';
import { add, compareRationals, isInteger, isZero, parseDecimal, rational } from './rational.js';

/** What a written function name means. */
const functions: Record<string, string> = {
  ...Object.fromEntries(
    'sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh ln log exp abs floor ceil'
      .split(' ')
      .map((n) => [n, n]),
  ),
  asin: 'arcsin',
  acos: 'arccos',
  atan: 'arctan',
  lg: 'log',
};

const inverses: Record<string, string> = { sin: 'arcsin', cos: 'arccos', tan: 'arctan' };

const greek = new Set(
  (
    'alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta kappa lambda mu nu xi rho sigma tau phi varphi ' +
    'chi psi omega Delta Gamma Omega Phi Sigma Theta Lambda ell hbar'
  ).split(' '),
);

const closers: Record<string, string> = {
  '(': ')',
  '[': ']',
  '{': '}',
  lvert: 'rvert',
  lfloor: 'rfloor',
  lceil: 'rceil',
  lbrack: 'rbrack',
};

const timesWords = new Set(['cdot', 'times', 'ast']);

const degree: Expression = {
  kind: 'quotient',
  numerator: { kind: 'constant', name: 'pi' },
  denominator: { kind: 'number', value: rational(180n) },
};

/**
 * LaTeX (or plain text) to an expression. Precedence as a reader takes it: implicit products bind like explicit ones,
 * a function without parentheses takes the factors that follow it up to the next operator or function (`\cos 2x`).
 */
export class Parser {
  private position = 0;
  private depth = 0;
  private insideBars = 0;

  private constructor(
    private readonly tokens: readonly Token[],
    private readonly budget: Budget,
  ) {}

  static parse(text: string, budget: Budget): Expression {
    const parser = new Parser(tokenize(text), budget);
    const expression = parser.sum();
    if (parser.position < parser.tokens.length) parser.fail('unexpected');
    return expression;
  }

  private peek(offset = 0): string | undefined {
    return this.tokens[this.position + offset]?.text;
  }

  private fail(what: string): never {
    throw new Undecided(`${what} ${JSON.stringify(this.peek() ?? 'end of text')} at token ${this.position}`);
  }

  private accept(...texts: string[]): boolean {
    const token = this.tokens[this.position];
    if (!token || token.type === 'number' || !texts.includes(token.text)) return false;
    this.position += 1;
    return true;
  }

  private expect(text: string): void {
    if (!this.accept(text)) this.fail(`expected ${text}, found`);
  }

  private sum(): Expression {
    this.budget.checkDepth(++this.depth);
    const terms: Expression[] = [];
    let sign = this.signs();
    for (;;) {
      const term = this.product();
      terms.push(sign < 0 ? { kind: 'negate', operand: term } : term);
      if (this.peek() !== '+' && this.peek() !== '-') break;
      sign = this.signs();
    }
    this.depth -= 1;
    return terms.length === 1 ? terms[0]! : { kind: 'sum', terms };
  }

  private signs(): number {
    let sign = 1;
    for (;;) {
      if (this.accept('-')) sign = -sign;
      else if (!this.accept('+')) return sign;
    }
  }

  private product(): Expression {
    let result = this.mixedNumber() ?? this.power();
    for (;;) {
      this.budget.spend();
      const token = this.tokens[this.position];
      if (!token) return result;
      if (token.type !== 'number' && (token.text === '*' || timesWords.has(token.text))) {
        this.position += 1;
        result = { kind: 'product', factors: [result, this.signedPower()] };
      } else if (this.accept('/', 'div')) {
        result = { kind: 'quotient', numerator: result, denominator: this.signedPower() };
      } else if (this.startsFactor(token)) {
        // `3 4` is not a product: it is a damaged number, and guessing would reward it.
        if (token.type === 'number' && this.tokens[this.position - 1]?.type === 'number')
          this.fail('two numbers in a row:');
        result = { kind: 'product', factors: [result, this.power()] };
      } else {
        return result;
      }
    }
  }

  private signedPower(): Expression {
    const sign = this.signs();
    const operand = this.power();
    return sign < 0 ? { kind: 'negate', operand } : operand;
  }

  private startsFactor(token: Token): boolean {
    if (token.type === 'number') return true;
    if (token.text === '|') return this.insideBars === 0;
    if (token.type === 'symbol') return token.text === '(' || token.text === '{' || token.text === '[';
    return !['rvert', 'rfloor', 'rceil', 'rbrack', '}', 'cup', 'cap'].includes(token.text);
  }

  /** `3\frac{1}{2}` is three and a half, not three halves. */
  private mixedNumber(): Expression | undefined {
    const whole = this.tokens[this.position];
    if (whole?.type !== 'number' || whole.text.includes('.') || this.peek(1) !== 'frac') return undefined;
    const start = this.position;
    this.position += 2;
    const numerator = this.argument();
    const denominator = this.argument();
    if (numerator.kind === 'number' && denominator.kind === 'number') {
      const [top, bottom] = [numerator.value, denominator.value];
      const proper = isInteger(top) && isInteger(bottom) && !isZero(bottom) && compareRationals(top, bottom) < 0;
      if (proper && this.peek() !== '^') {
        return { kind: 'number', value: add(parseDecimal(whole.text), rational(top.numerator, bottom.numerator)) };
      }
    }
    this.position = start;
    return undefined;
  }

  private power(): Expression {
    let base = this.atom();
    for (;;) {
      if (this.accept('!')) base = { kind: 'call', name: 'factorial', operands: [base] };
      else if (this.acceptDegree()) base = { kind: 'product', factors: [base, degree] };
      else if (this.accept('^')) base = { kind: 'power', base, exponent: this.argument() };
      else return base;
    }
  }

  private acceptDegree(): boolean {
    const length =
      this.peek() !== '^' ? 0 : this.peek(1) === 'circ' ? 2 : this.peek(1) === '{' && this.peek(2) === 'circ' ? 4 : 0;
    this.position += length;
    return length > 0;
  }

  /** What follows `^`, `_` or a command: a group, or a single token (`\frac12`, `x^2y`). */
  private argument(): Expression {
    if (this.accept('{')) return this.group('}');
    const token = this.tokens[this.position];
    if (token?.type === 'number' && token.text.length > 1 && !token.text.includes('.')) return this.singleDigit(token);
    if (this.accept('-')) return { kind: 'negate', operand: this.argument() };
    return this.atom();
  }

  /** TeX takes one digit: `\frac12` is a half and `x^23` is x² times 3; but plain `2^10` means the number ten. */
  private singleDigit(token: Token): Expression {
    const afterCaret = this.peek(-1) === '^';
    if (afterCaret) {
      this.position += 1;
      return { kind: 'number', value: parseDecimal(token.text) };
    }
    const rest: Token = { type: 'number', text: token.text.slice(1), spaced: false };
    (this.tokens as Token[]).splice(this.position, 1, { ...token, text: token.text[0]! }, rest);
    this.position += 1;
    return { kind: 'number', value: parseDecimal(token.text[0]!) };
  }

  private group(closer: string): Expression {
    const bars = this.insideBars;
    this.insideBars = 0;
    const inner = this.sum();
    this.insideBars = bars;
    this.expect(closer);
    return inner;
  }

  private atom(): Expression {
    this.budget.spend();
    const token = this.tokens[this.position];
    if (!token) this.fail('unexpected');
    this.position += 1;
    if (token.type === 'number') return { kind: 'number', value: parseDecimal(token.text) };
    if (token.text === '|' || token.text === 'vert') return this.absoluteValue(token.text);
    const closer = closers[token.text];
    if (closer) {
      const inner = this.group(closer);
      if (token.text === 'lvert') return { kind: 'call', name: 'abs', operands: [inner] };
      if (token.text === 'lfloor') return { kind: 'call', name: 'floor', operands: [inner] };
      if (token.text === 'lceil') return { kind: 'call', name: 'ceil', operands: [inner] };
      return inner;
    }
    if (token.type === 'symbol') {
      this.position -= 1;
      this.fail('unexpected');
    }
    return this.named(token.text);
  }

  private absoluteValue(bar: string): Expression {
    this.insideBars += 1;
    const inner = this.sum();
    this.insideBars -= 1;
    this.expect(bar);
    return { kind: 'call', name: 'abs', operands: [inner] };
  }

  private named(name: string): Expression {
    if (name === 'frac') {
      const numerator = this.argument();
      return { kind: 'quotient', numerator, denominator: this.argument() };
    }
    if (name === 'sqrt') return this.root();
    if (name === 'binom') {
      const upper = this.argument();
      return { kind: 'call', name: 'binomial', operands: [upper, this.argument()] };
    }
    if (name === 'pi' || name === 'e' || name === 'i') return { kind: 'constant', name };
    if (name === 'infty' || name === 'infinity' || name === 'oo' || name === 'inf')
      return { kind: 'constant', name: 'infinity' };
    const known = functions[name];
    if (known) return this.functionCall(known);
    if (name.length === 1 || greek.has(name)) return this.variable(name);
    this.position -= 1;
    return this.fail('unknown command');
  }

  private root(): Expression {
    let degree: Expression = { kind: 'number', value: rational(2n) };
    if (this.accept('[')) degree = this.group(']');
    const radicand = this.argument();
    return { kind: 'call', name: 'root', operands: [radicand, degree] };
  }

  private variable(name: string): Expression {
    let full = name;
    if (this.accept('_')) {
      const braced = this.accept('{');
      do {
        const token = this.tokens[this.position++];
        if (!token) this.fail('unfinished subscript');
        full += full === name ? `_${token.text}` : token.text;
      } while (braced && !this.accept('}'));
    }
    while (this.accept("'")) full += "'";
    return { kind: 'variable', name: full };
  }

  private functionCall(known: string): Expression {
    let name = known;
    const before: Expression[] = [];
    let exponent: Expression | undefined;
    if (this.accept('_')) {
      before.push(this.argument());
      if (name !== 'log') this.fail('a subscript of a function before');
    }
    if (this.accept('^')) {
      exponent = this.argument();
      const isInverse = exponent.kind === 'negate' && exponent.operand.kind === 'number' && inverses[name];
      if (isInverse && exponent.kind === 'negate' && exponent.operand.kind === 'number') {
        if (compareRationals(exponent.operand.value, rational(1n)) === 0) {
          name = inverses[name]!;
          exponent = undefined;
        }
      }
    }
    const call: Expression = { kind: 'call', name, operands: [this.functionArgument(), ...before] };
    return exponent ? { kind: 'power', base: call, exponent } : call;
  }

  private functionArgument(): Expression {
    const first = this.peek();
    if (first === '(' || first === '{' || first === '[' || first === '|') {
      const operand = this.atom();
      return this.accept('!') ? { kind: 'call', name: 'factorial', operands: [operand] } : operand;
    }
    const negative = this.accept('-');
    let operand = this.mixedNumber() ?? this.power();
    for (;;) {
      const token = this.tokens[this.position];
      if (!token || !this.startsFactor(token) || functions[token.text] || token.text === '(' || token.text === '[')
        break;
      if (token.type === 'number') break;
      if (token.type === 'name' && timesWords.has(token.text)) break;
      operand = { kind: 'product', factors: [operand, this.power()] };
    }
    if (this.peek() === '/' && operand.kind !== 'call') {
      // `\sin x/2` stays (sin x)/2; only a constant such as `\sin \pi/6` reads as one argument.
      const constantOnly =
        operand.kind === 'constant' ||
        (operand.kind === 'product' && operand.factors.every((f) => f.kind !== 'variable'));
      if (constantOnly && this.accept('/'))
        operand = { kind: 'quotient', numerator: operand, denominator: this.power() };
    }
    return negative ? { kind: 'negate', operand } : operand;
  }
}

export const parseExpression = (text: string, budget: Budget): Expression => Parser.parse(text, budget);
