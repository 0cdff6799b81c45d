/**
 * Values as Python prints them. Chat templates were written against Jinja2 in Python, and a model has seen exactly those
 * characters in training: `", "` and `": "` in JSON, `True`, `1e-07`, `[]` even when indented.
 */

/** A value of the template language: what `@huggingface/jinja` wraps a JavaScript value into. */
export interface TemplateValue {
  type: string;
  value: unknown;
}

export interface JsonStyle {
  indent?: number | null;
  ensureAscii?: boolean;
  separators?: [string, string] | null;
  sortKeys?: boolean;
}

/** `json.dumps(value)`. */
export function pythonJson(input: TemplateValue, style: JsonStyle = {}, depth = 0): string {
  switch (input.type) {
    case 'NullValue':
    case 'UndefinedValue':
      return 'null';
    case 'BooleanValue':
      return input.value ? 'true' : 'false';
    case 'IntegerValue':
      return pythonInteger(input.value as number);
    case 'FloatValue':
      return pythonFloat(input.value as number, 'Infinity');
    case 'StringValue':
      return jsonString(input.value as string, style.ensureAscii ?? false);
    case 'ArrayValue':
    case 'TupleValue': {
      const items = (input.value as TemplateValue[]).map((item) => pythonJson(item, style, depth + 1));
      return jsonContainer('[', ']', items, style, depth);
    }
    case 'ObjectValue':
    case 'NamespaceValue':
    case 'KeywordArgumentsValue': {
      const [, keySeparator] = separatorsOf(style);
      let entries = [...(input.value as Map<string, TemplateValue>)];
      if (style.sortKeys) entries = entries.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
      const items = entries.map(
        ([key, value]) =>
          jsonString(key, style.ensureAscii ?? false) + keySeparator + pythonJson(value, style, depth + 1),
      );
      return jsonContainer('{', '}', items, style, depth);
    }
    default:
      throw new Error(`Object of type ${input.type} is not JSON serializable`);
  }
}

function separatorsOf({ separators, indent }: JsonStyle): [string, string] {
  return separators ?? [indent == null ? ', ' : ',', ': '];
}

function jsonContainer(open: string, close: string, items: string[], style: JsonStyle, depth: number): string {
  if (items.length === 0) return open + close;
  const [itemSeparator] = separatorsOf(style);
  if (style.indent == null) return open + items.join(itemSeparator) + close;
  const outer = `\n${' '.repeat(style.indent * depth)}`;
  const inner = `\n${' '.repeat(style.indent * (depth + 1))}`;
  return open + inner + items.join(itemSeparator + inner) + outer + close;
}

function jsonString(text: string, ensureAscii: boolean): string {
  const quoted = JSON.stringify(text);
  if (!ensureAscii) return quoted;
  return quoted.replace(/[\u007f-\uffff]/g, (unit) => {
    return unit === '\u007f' ? unit : `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;
  });
}

function pythonInteger(value: number): string {
  return Number.isSafeInteger(value) ? String(value) : BigInt(value).toString();
}

/** `repr(float)`: shortest digits like JavaScript's, but exponents from 1e16 up and below 1e-4, at least two digits wide. */
export function pythonFloat(value: number, infinity = 'inf'): string {
  if (Number.isNaN(value)) return infinity === 'inf' ? 'nan' : 'NaN';
  if (!Number.isFinite(value)) return value < 0 ? `-${infinity}` : infinity;
  const magnitude = Math.abs(value);
  if (magnitude !== 0 && (magnitude >= 1e16 || magnitude < 1e-4)) {
    const [digits, exponent] = value.toExponential().split('e') as [string, string];
    const sign = exponent[0] as string;
    return `${digits}e${sign}${exponent.slice(1).padStart(2, '0')}`;
  }
  const text = String(value);
  return text.includes('.') ? text : `${text}.0`;
}

/** `str(value)`: what `{{ value }}` prints. */
export function pythonStr(input: TemplateValue): string {
  return input.type === 'StringValue' ? (input.value as string) : pythonRepr(input);
}

function pythonRepr(input: TemplateValue): string {
  switch (input.type) {
    case 'UndefinedValue':
      return '';
    case 'NullValue':
      return 'None';
    case 'BooleanValue':
      return input.value ? 'True' : 'False';
    case 'IntegerValue':
      return pythonInteger(input.value as number);
    case 'FloatValue':
      return pythonFloat(input.value as number);
    case 'StringValue':
      return reprString(input.value as string);
    case 'ArrayValue':
      return `[${(input.value as TemplateValue[]).map(pythonRepr).join(', ')}]`;
    case 'TupleValue': {
      const items = (input.value as TemplateValue[]).map(pythonRepr);
      return items.length === 1 ? `(${items[0]},)` : `(${items.join(', ')})`;
    }
    case 'ObjectValue':
      return `{${[...(input.value as Map<string, TemplateValue>)]
        .map(([key, value]) => `${reprString(key)}: ${pythonRepr(value)}`)
        .join(', ')}}`;
    default:
      return String(input.value);
  }
}

function reprString(text: string): string {
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what repr escapes
  const escaped = text.replace(/[\\\u0000-\u001f\u007f'"]/g, (character) => {
    if (character === '\\') return '\\\\';
    if (character === '\n') return '\\n';
    if (character === '\r') return '\\r';
    if (character === '\t') return '\\t';
    if (character === "'" || character === '"') return character === quote ? `\\${character}` : character;
    return `\\x${character.charCodeAt(0).toString(16).padStart(2, '0')}`;
  });
  return quote + escaped + quote;
}

const DAYS = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'];
const MONTHS = [
  'January',
  'February',
  'March',
  'April',
  'May',
  'June',
  'July',
  'August',
  'September',
  'October',
  'November',
  'December',
];

/** `datetime.strftime` in the C locale, for the directives that templates use. */
export function strftime(date: Date, format: string): string {
  const pad = (value: number, width = 2) => String(value).padStart(width, '0');
  const month = MONTHS[date.getMonth()] as string;
  const day = DAYS[date.getDay()] as string;
  const hour12 = date.getHours() % 12 || 12;
  const dayOfYear =
    Math.round(
      (Date.UTC(date.getFullYear(), date.getMonth(), date.getDate()) - Date.UTC(date.getFullYear(), 0, 1)) / 86_400_000,
    ) + 1;
  const directives: Record<string, string> = {
    Y: String(date.getFullYear()),
    y: pad(date.getFullYear() % 100),
    m: pad(date.getMonth() + 1),
    B: month,
    b: month.slice(0, 3),
    d: pad(date.getDate()),
    e: String(date.getDate()).padStart(2, ' '),
    j: pad(dayOfYear, 3),
    A: day,
    a: day.slice(0, 3),
    w: String(date.getDay()),
    H: pad(date.getHours()),
    I: pad(hour12),
    M: pad(date.getMinutes()),
    S: pad(date.getSeconds()),
    p: date.getHours() < 12 ? 'AM' : 'PM',
    F: `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())}`,
    T: `${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`,
    '%': '%',
  };
  return format.replace(/%(-?)([a-zA-Z%])/g, (directive, dash: string, letter: string) => {
    const text = directives[letter];
    if (text === undefined) return directive;
    return dash ? text.replace(/^[0 ]+(?=.)/, '') : text;
  });
}
