/** Conventions of written answers: what is decoration, what is a unit, what is the value. */

export interface CleanAnswer {
  /** LaTeX or plain text without decoration. */
  readonly text: string;
  /** The unit that was written behind the value, in one canonical spelling. */
  readonly unit: string | undefined;
  /** `%` was written: 50% may stand for 50 or for 1/2. */
  readonly isPercent: boolean;
}

const unicode: Record<string, string> = {
  '−': '-',
  '–': '-',
  '×': '\\times ',
  '·': '\\cdot ',
  '÷': '\\div ',
  π: '\\pi ',
  '∞': '\\infty ',
  '√': '\\sqrt ',
  '≤': '\\le ',
  '≥': '\\ge ',
  '≠': '\\ne ',
  '∪': '\\cup ',
  '°': '^\\circ ',
  '²': '^2',
  '³': '^3',
  '±': '\\pm ',
  '½': '\\frac12 ',
  '¼': '\\frac14 ',
  '¾': '\\frac34 ',
  '，': ',',
  '（': '(',
  '）': ')',
  '∈': '\\in ',
  '\u00a0': ' ',
};

/** Spellings of one unit on one line; the first is the canonical one. */
const units = new Map<string, string>();
for (const line of [
  'cm centimeter centimeters centimetre centimetres',
  'm meter meters metre metres',
  'km kilometer kilometers kilometre kilometres',
  'mm millimeter millimeters',
  'in inch inches',
  'ft foot feet',
  'yd yard yards',
  'mi mile miles',
  'mph',
  'g gram grams gm',
  'kg kilogram kilograms',
  'lb lbs pound pounds',
  'oz ounce ounces',
  's sec second seconds',
  'min minute minutes',
  'h hr hrs hour hours',
  'day days',
  'week weeks',
  'month months',
  'year years',
  'dollar dollars usd',
  'cent cents',
  'degree degrees',
  'unit units',
  'l liter liters litre litres',
  'ml milliliter milliliters',
]) {
  const [canonical, ...spellings] = line.split(' ');
  for (const spelling of [canonical!, ...spellings]) units.set(spelling, canonical!);
}

const knownWords = new Set([...units.keys(), 'sq', 'per', 'of', 'men', 'way']);

const mathWords =
  /^(?:sqrt|sin|cos|tan|cot|sec|csc|log|ln|exp|pi|arcsin|arccos|arctan|infinity|inf|oo|or|and|abs|floor|ceil|binom|theta|alpha|beta|gamma|lambda|sinh|cosh|tanh)$/;

/** `{...}` groups of a command replaced by what `replace` makes of their content (one level of braces inside). */
function replaceCommand(text: string, command: RegExp, replace: (content: string) => string): string {
  return text.replace(
    new RegExp(`\\\\(?:${command.source})\\s*\\{((?:[^{}]|\\{[^{}]*\\})*)\\}`, 'g'),
    (_, content: string) => replace(content),
  );
}

function unwrap(text: string): string {
  let result = text.trim();
  for (;;) {
    const before = result;
    result = result
      .replace(/^\$+([^$]*)\$+$/, '$1')
      .replace(/^\\\(([\s\S]*)\\\)$/, '$1')
      .replace(/^\\\[([\s\S]*)\\\]$/, '$1');
    result = result.replace(/^\\(?:boxed|fbox)\s*\{([\s\S]*)\}$/, '$1').trim();
    if (result === before) return result;
  }
}

/** A repeating decimal as a fraction: `0.1\overline{6}` is 1/6. */
function repeatingDecimal(_: string, whole: string, fixedPart: string, repeated: string): string {
  const scale = 10n ** BigInt(fixedPart.length);
  const period = 10n ** BigInt(repeated.length) - 1n;
  const numerator = BigInt(`${whole}${fixedPart}` || '0') * period + BigInt(repeated);
  return `(${numerator}/${scale * period})`;
}

function splitUnit(text: string): { text: string; unit: string | undefined } {
  const degrees =
    /^(.*?)\s*\^\s*(?:\\circ|\{\s*\\circ\s*\}|\\degree)\s*$/.exec(text) ?? /^(.*?)\s*\\degree\s*$/.exec(text);
  // Inside a function the degree belongs to the argument, and the parser turns it into radians.
  if (degrees && !/\\?(?:sin|cos|tan|cot|sec|csc)/.test(degrees[1]!)) return { text: degrees[1]!, unit: 'degree' };
  // Words behind a value, with an exponent perhaps: `5 cm^2`, `12 \text{ square units}`, `3 apples per day`.
  const match =
    /^(.*(?:[\d})\]!]|\\pi(?![a-zA-Z])))((?:(?:\s|\\cdot|\/|\ue000)*[A-Za-z]{1,}\.?\ue000*(?:\s*\^\s*(?:\d|\{\d\}|-1))?)+)\s*$/.exec(
      text,
    );
  if (!match) return { text, unit: undefined };
  const [, value, tail] = match as unknown as [string, string, string];
  const marked = tail.includes('\ue000');
  const words = tail
    .replace(/\ue000/g, ' ')
    .split(/[\s/]+|\\cdot|per/)
    .map((word) => word.replace(/[.^{}\d-]/g, '').toLowerCase());
  const named = words.filter(Boolean);
  const looksLikeUnit =
    named.every((word) => !mathWords.test(word)) &&
    // Plain letters may be variables (`3 xy`): only known units and words long enough to be words are taken away.
    (marked ||
      (/^\s/.test(tail) && named.every((word) => word.length > 3 || (word.length > 1 && knownWords.has(word)))) ||
      (named.length === 1 && units.has(named[0]!) && named[0]!.length > 1));
  if (!looksLikeUnit) return { text, unit: undefined };
  const exponent =
    /\^\s*\{?(\d)/.exec(tail)?.[1] ??
    (named.includes('square') || named.includes('sq') ? '2' : named.includes('cubic') ? '3' : '');
  const base = named
    .filter((word) => !['square', 'cubic', 'sq'].includes(word))
    .map((word) => units.get(word) ?? `?${word}`);
  return { text: value, unit: `${base.join(' ')}${exponent}` };
}

/** Removes decoration. Words of `\text{}` stay as words; `and`/`or` become commas. */
export function cleanAnswer(raw: string): CleanAnswer {
  let text = unwrap(raw.replace(/[−–×·÷π∞√≤≥≠∪°²³±½¼¾，（）∈\u00a0]/g, (character) => unicode[character] ?? character));
  text = text
    .replace(/\\(?:displaystyle|textstyle|limits|nolimits)(?![a-zA-Z])/g, ' ')
    .replace(/\\(?:left|right|bigl|bigr|Bigl|Bigr|big|Big|bigg|Bigg|middle)(?![a-zA-Z])\s*\.?/g, '')
    .replace(/(\d)(?:\\,|\\;|\\:|\\ |~|\{,\}|,\\!|\{ \})(?=\d{3}(?!\d))/g, '$1')
    .replace(/(?<!\\)\\[,;:!]|(?<!\\)\\ |~|\\quad|\\qquad|\\hspace\{[^}]*\}/g, ' ')
    .replace(/\\(?:dfrac|tfrac|cfrac)(?![a-zA-Z])/g, '\\frac')
    .replace(/\\(?:leq|leqslant)(?![a-zA-Z])/g, '\\le ')
    .replace(/\\(?:geq|geqslant)(?![a-zA-Z])/g, '\\ge ')
    .replace(/\\neq(?![a-zA-Z])/g, '\\ne ')
    .replace(/\\(?:dbinom|tbinom)(?![a-zA-Z])/g, '\\binom')
    .replace(/\\\$|\$|€|£/g, '');
  text = replaceCommand(text, /mathrm|operatorname\*?/, (content) =>
    mathWords.test(content) || content.length === 1 ? ` ${content} ` : `\\text{${content}}`,
  );
  // U+E000 marks a word that came from \text: it can be a unit even when it is one letter long.
  text = replaceCommand(text, /text|textbf|textit|textrm|mbox|mathbf|mathit|textnormal|mathsf/, (content) =>
    /^\s*,?\s*(?:and|or)\s*$/i.test(content) ? ',' : ` ${content.trim().replace(/([A-Za-z]+)/g, '$1\ue000')} `,
  );
  text = text
    .replace(/\s+(?:and|or)\ue000?\s+/gi, ' , ')
    .replace(/,\s*,/g, ',')
    .replace(/(\d*)\.(\d*)\\(?:overline|dot|bar)\s*\{(\d+)\}/g, repeatingDecimal)
    .replace(/(^|[^\d.])(\d+)\s+(\d+)\/(\d+)(?![\d.])/g, '$1($2+$3/$4)')
    .replace(
      /(^|[^\d.])(\d{1,3}(?: \d{3})+)(?![\d.])/g,
      (_, before: string, digits: string) => before + digits.replace(/ /g, ''),
    )
    .trim()
    .replace(/[.,;]+$/, '')
    // As calculators and programs write it; only a whole answer, for inside an expression the letter is a number of its own.
    .replace(/^\s*([+-]?\d+(?:\.\d*)?)[eE]([+-]?\d+)\s*$/, '$1\\cdot 10^{$2}')
    .trim();
  const isPercent = /\\?%\s*$|\bpercent\ue000?$/.test(text);
  text = text.replace(/\s*(?:\\?%|\bpercent\ue000?)\s*$/, '');
  const { text: value, unit } = splitUnit(text);
  return { text: value.replace(/\ue000/g, '').trim(), unit, isPercent };
}
