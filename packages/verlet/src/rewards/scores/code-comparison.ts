import type { PlainValue } from '../sandbox/index.js';

/**
 * Output against expected output, line by line and token by token: white space at line ends does not count, decimal numbers may
 * differ by rounding (numpy's allclose, as verl), integers may not. Order counts; verl also accepts the same lines in any
 * order, which lets wrong answers through.
 */
export function isSameOutput(actual: string, expected: string): boolean {
  const [left, right] = [meaningfulLines(actual), meaningfulLines(expected)];
  if (left.length !== right.length) return false;
  return left.every((line, index) => {
    const other = right[index] ?? '';
    if (line === other) return true;
    const [tokens, others] = [line.split(/\s+/), other.split(/\s+/)];
    return tokens.length === others.length && tokens.every((token, at) => isSameToken(token, others[at] ?? ''));
  });
}

const meaningfulLines = (text: string): string[] =>
  text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');

const number = /^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/;
const integer = /^[+-]?\d+$/;

function isSameToken(actual: string, expected: string): boolean {
  if (actual === expected) return true;
  if (!number.test(actual) || !number.test(expected)) return false;
  if (integer.test(actual) && integer.test(expected)) return BigInt(unsigned(actual)) === BigInt(unsigned(expected));
  return isClose(Number(actual), Number(expected));
}

const unsigned = (text: string) => text.replace(/^\+/, '');

function isClose(actual: number, expected: number): boolean {
  return actual === expected || Math.abs(actual - expected) <= 1e-8 + 1e-5 * Math.abs(expected);
}

/**
 * A returned value against the expected one. Python's equality over what JSON can say: tuples are lists, True is 1. As in verl
 * the expected value may come wrapped in a list of one.
 */
export function isSameValue(actual: PlainValue, expected: PlainValue): boolean {
  if (isEqual(actual, expected)) return true;
  return Array.isArray(expected) && expected.length === 1 && isEqual(actual, expected[0]);
}

function isEqual(actual: PlainValue, expected: PlainValue): boolean {
  const [left, right] = [unboxed(actual), unboxed(expected)];
  if (typeof left === 'bigint' || typeof right === 'bigint') {
    return (
      (typeof left === 'bigint' || typeof left === 'number') &&
      (typeof right === 'bigint' || typeof right === 'number') &&
      // biome-ignore lint/suspicious/noDoubleEquals: the one operator that compares an integer of any size with a float exactly
      left == right
    );
  }
  if (typeof left === 'number' && typeof right === 'number') {
    return left === right || (!(Number.isInteger(left) && Number.isInteger(right)) && isClose(left, right));
  }
  if (left === null || right === null || typeof left !== 'object' || typeof right !== 'object') return left === right;
  if (left instanceof Uint8Array || right instanceof Uint8Array) return false;
  if (left instanceof Set) {
    const items = right instanceof Set || Array.isArray(right) ? [...right] : undefined;
    return (
      items !== undefined &&
      items.length === left.size &&
      items.every((item) => [...left].some((own) => isEqual(own, item)))
    );
  }
  if (Array.isArray(left) || Array.isArray(right)) {
    if (!Array.isArray(left) || !Array.isArray(right) || left.length !== right.length) return false;
    return left.every((item, index) => isEqual(item, right[index]));
  }
  const [mine, theirs] = [entriesByText(left), entriesByText(right)];
  return (
    mine.size === theirs.size && [...mine].every(([key, value]) => theirs.has(key) && isEqual(value, theirs.get(key)))
  );
}

/** Python's True == 1 and None; JavaScript's undefined counts as no value. */
function unboxed(value: PlainValue): Exclude<PlainValue, boolean | undefined> {
  if (typeof value === 'boolean') return value ? 1 : 0;
  return value ?? null;
}

/** JSON knows text keys only, so {1: 2} arrives as {"1": 2}. */
function entriesByText(value: object): Map<string, PlainValue> {
  const entries: [PlainValue, PlainValue][] = value instanceof Map ? [...value] : Object.entries(value);
  return new Map(entries.map(([key, item]) => [typeof key === 'string' ? key : String(key), item]));
}
