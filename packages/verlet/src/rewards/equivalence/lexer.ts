import { Undecided } from './budget.js';

/** A token of LaTeX or of plain mathematical text. */
export interface Token {
  readonly type: 'number' | 'name' | 'symbol';
  /** Digits; a command or word without its backslash; one character. */
  readonly text: string;
  /** Whether white space stood before it. */
  readonly spaced: boolean;
}

/** Words that mean one thing when written without a backslash. Longest first, so that `arcsin` is not `a r c sin`. */
const plainWords = (
  'arcsin arccos arctan infinity sqrt sinh cosh tanh asin acos atan floor ceil binom theta alpha beta gamma lambda ' +
  'sin cos tan cot sec csc log exp abs inf ln pi oo'
).split(' ');

const symbols = new Set("+-*/^_()[]{}|!,;:=<>'");

export function tokenize(text: string): Token[] {
  const tokens: Token[] = [];
  let at = 0;
  let spaced = false;
  const push = (type: Token['type'], value: string, length: number) => {
    tokens.push({ type, text: value, spaced });
    at += length;
    spaced = false;
  };
  while (at < text.length) {
    const character = text[at]!;
    if (/\s/.test(character)) {
      spaced = true;
      at += 1;
      continue;
    }
    const number = /^(?:\d+(?:\.\d+)?|\.\d+)/.exec(text.slice(at, at + 4_000));
    if (number) {
      push('number', number[0], number[0].length);
    } else if (character === '\\') {
      const command = /^\\([a-zA-Z]+|.)/.exec(text.slice(at, at + 40));
      if (!command) throw new Undecided('a lone backslash');
      push('name', command[1]!, command[0].length);
    } else if (/[a-zA-Z]/.test(character)) {
      const word = plainWords.find((candidate) => text.startsWith(candidate, at));
      push('name', word ?? character, (word ?? character).length);
    } else if (symbols.has(character)) {
      push('symbol', character, 1);
    } else {
      throw new Undecided(`unexpected character ${JSON.stringify(character)}`);
    }
  }
  return tokens;
}
