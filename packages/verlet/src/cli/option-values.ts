/** Readers of option values for commander: a value that does not fit is named with what is allowed. */
import { InvalidArgumentError } from 'commander';

export function anyNumber(text: string): number {
  const value = Number(text);
  if (text.trim() === '' || !Number.isFinite(value)) throw new InvalidArgumentError('It must be a number.');
  return value;
}

export function aboveZero(text: string): number {
  const value = anyNumber(text);
  if (value <= 0) throw new InvalidArgumentError('It must be above 0.');
  return value;
}

export function notNegative(text: string): number {
  const value = anyNumber(text);
  if (value < 0) throw new InvalidArgumentError('It must not be negative.');
  return value;
}

export function share(text: string): number {
  const value = anyNumber(text);
  if (!(value > 0 && value <= 1)) throw new InvalidArgumentError('It must be above 0 and at most 1.');
  return value;
}

/** A whole number between `least` and `most`. */
export function wholeNumber(least: number, most = Number.MAX_SAFE_INTEGER): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (text.trim() === '' || !Number.isInteger(value)) throw new InvalidArgumentError('It must be a whole number.');
    if (value < least) throw new InvalidArgumentError(`It must be at least ${least}.`);
    if (value > most) throw new InvalidArgumentError(`It must be at most ${most}.`);
    return value;
  };
}

/** A port to listen on; 0 is a free one. */
export const port = wholeNumber(0, 65535);

export function jsonObject(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  } catch {
    // Said below.
  }
  throw new InvalidArgumentError('It must be a JSON object such as {"format_score": 0.1}.');
}
