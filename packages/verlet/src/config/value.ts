import { UserError } from './errors.js';

/**
 * The right-hand side of `key=value`, in Hydra's grammar: null, booleans, numbers, quoted and bare strings,
 * `[lists]`, `{dicts}` (with or without a space after the colon) and `${interpolations}`, which stay text for later.
 */
export function parseValue(source: string): unknown {
  const reader = new ValueReader(source);
  return reader.readAll();
}

/** A bare word as null, boolean or number where it reads as one, else as the word itself. */
export function primitive(word: string): unknown {
  if (/^null$/i.test(word)) return null;
  if (/^true$/i.test(word)) return true;
  if (/^false$/i.test(word)) return false;
  if (/^[+-]?\d+(_\d+)*$/.test(word)) return Number(word.replaceAll('_', ''));
  if (/^[+-]?(\d+(_\d+)*\.\d*|\.\d+|\d+(_\d+)*)(e[+-]?\d+)?$/i.test(word)) return Number(word.replaceAll('_', ''));
  if (/^[+-]?inf$/i.test(word)) return word.startsWith('-') ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY;
  if (/^nan$/i.test(word)) return Number.NaN;
  return word;
}

class ValueReader {
  private position = 0;
  private readonly source: string;

  constructor(source: string) {
    this.source = source;
  }

  readAll(): unknown {
    this.skipSpace();
    if (this.position === this.source.length) return '';
    const first = this.peek();
    if (first === '[' || first === '{' || first === "'" || first === '"') {
      const value = this.readNested();
      this.skipSpace();
      if (this.position < this.source.length)
        this.fail(`unexpected ${JSON.stringify(this.source.slice(this.position))}`);
      return value;
    }
    return this.readBare('');
  }

  private readNested(): unknown {
    this.skipSpace();
    switch (this.peek()) {
      case '[':
        return this.readList();
      case '{':
        return this.readDict();
      case "'":
      case '"':
        return this.readQuoted();
      default:
        return this.readBare(',]}');
    }
  }

  private readList(): unknown[] {
    const items: unknown[] = [];
    this.position++;
    for (;;) {
      this.skipSpace();
      if (this.take(']')) return items;
      items.push(this.readNested());
      this.skipSpace();
      if (this.take(']')) return items;
      if (!this.take(',')) this.fail('expected , or ] in a list');
    }
  }

  private readDict(): Record<string, unknown> {
    const entries: [string, unknown][] = [];
    this.position++;
    for (;;) {
      this.skipSpace();
      if (this.take('}')) return Object.fromEntries(entries);
      const key = this.peek() === "'" || this.peek() === '"' ? this.readQuoted() : this.readKey();
      this.skipSpace();
      if (!this.take(':')) this.fail('expected : after a key of a dict');
      entries.push([key, this.readNested()]);
      this.skipSpace();
      if (this.take('}')) return Object.fromEntries(entries);
      if (!this.take(',')) this.fail('expected , or } in a dict');
    }
  }

  private readKey(): string {
    const start = this.position;
    while (this.position < this.source.length && !':,}'.includes(this.source[this.position]!)) this.position++;
    const key = this.source.slice(start, this.position).trim();
    if (key === '') this.fail('expected a key in a dict');
    return key;
  }

  private readQuoted(): string {
    const quote = this.source[this.position++]!;
    let text = '';
    for (;;) {
      const character = this.source[this.position];
      if (character === undefined) this.fail(`missing closing ${quote}`);
      this.position++;
      if (character === quote) return text;
      const next = this.source[this.position];
      if (character === '\\' && (next === quote || next === '\\')) {
        text += next;
        this.position++;
      } else text += character;
    }
  }

  /** A word without quotes, up to one of `terminators`; interpolations may hold any of them. */
  private readBare(terminators: string): unknown {
    let text = '';
    let escaped = false;
    while (this.position < this.source.length) {
      const character = this.source[this.position]!;
      if (character === '$' && this.source[this.position + 1] === '{') {
        text += this.readInterpolation();
        continue;
      }
      if (terminators.includes(character)) break;
      if (terminators === '' && character === ',') {
        this.fail('a bare comma would be a sweep over several runs; write a list as [a,b] or quote the text');
      }
      if (character === '\\' && ',[]{}:= \'"'.includes(this.source[this.position + 1] ?? '\0')) {
        text += this.source[this.position + 1];
        this.position += 2;
        escaped = true;
        continue;
      }
      text += character;
      this.position++;
    }
    text = text.trim();
    if (text === '' && terminators !== '' && !escaped) this.fail('expected a value');
    return escaped ? text : primitive(text);
  }

  private readInterpolation(): string {
    const start = this.position;
    let depth = 0;
    do {
      const character = this.source[this.position];
      if (character === undefined) this.fail('missing } of an interpolation');
      if (character === '{') depth++;
      if (character === '}') depth--;
      this.position++;
    } while (depth > 0 || this.position === start + 1);
    return this.source.slice(start, this.position);
  }

  private peek(): string | undefined {
    return this.source[this.position];
  }

  private take(character: string): boolean {
    if (this.peek() !== character) return false;
    this.position++;
    return true;
  }

  private skipSpace(): void {
    while (/\s/.test(this.source[this.position] ?? '')) this.position++;
  }

  private fail(problem: string): never {
    throw new UserError(`${problem}, at character ${this.position + 1} of ${JSON.stringify(this.source)}`);
  }
}
