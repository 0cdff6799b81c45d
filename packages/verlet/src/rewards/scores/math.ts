import type { RewardInput } from '../types.js';
import { lastBoxed } from './boxed.js';
import { answerText } from './text.js';

class Malformed extends Error {}

/** `\frac12`, `\frac1{72}`, `\frac{1}2` spelled with braces. */
function fixFractions(text: string): string {
  const [first, ...pieces] = text.split('\\frac');
  let result = first!;
  for (const piece of pieces) {
    if (piece.startsWith('{')) result += `\\frac${piece}`;
    else if (piece.length === 0) throw new Malformed();
    else if (piece.length < 2) return text;
    else if (piece[1] === '{') result += `\\frac{${piece[0]}}${piece.slice(1)}`;
    else result += `\\frac{${piece[0]}}{${piece[1]}}${piece.slice(2)}`;
  }
  return result;
}

function fixRoots(text: string): string {
  const [first, ...pieces] = text.split('\\sqrt');
  return pieces.reduce((result, piece) => {
    if (piece.length === 0) throw new Malformed();
    return `${result}\\sqrt${piece.startsWith('{') ? piece : `{${piece[0]}}${piece.slice(1)}`}`;
  }, first!);
}

/** `3/4` of two integers is `\frac{3}{4}`. */
function fixSlash(text: string): string {
  const match = /^(0|-?[1-9]\d*)\/(0|-?[1-9]\d*)$/.exec(text);
  return match ? `\\frac{${match[1]}}{${match[2]}}` : text;
}

/** Units are written `5\text{ cm}`, with a space inside the group. */
function removeUnits(text: string): string {
  const parts = text.split('\\text{ ');
  if (parts.length > 2) throw new Malformed();
  return parts[0]!;
}

/** The normal form of Hendrycks' MATH evaluation: spelling differences go, values stay as they are written. */
export function normalizeMath(answer: string): string {
  let text = answer
    .replaceAll('\n', '')
    .replaceAll('\\!', '')
    .replaceAll('\\\\', '\\')
    .replaceAll('tfrac', 'frac')
    .replaceAll('dfrac', 'frac')
    .replaceAll('\\left', '')
    .replaceAll('\\right', '')
    .replaceAll('^{\\circ}', '')
    .replaceAll('^\\circ', '')
    .replaceAll('\\$', '');
  text = removeUnits(text).replaceAll('\\%', '').replaceAll(' .', ' 0.').replaceAll('{.', '{0.');
  if (text.length === 0) return text;
  if (text.startsWith('.')) text = `0${text}`;
  const sides = text.split('=');
  if (sides.length === 2 && sides[0]!.length <= 2) text = sides[1]!; // `k = 5`
  text = fixFractions(fixRoots(text).replaceAll(' ', ''));
  return fixSlash(text === '0.5' ? '\\frac{1}{2}' : text);
}

/** Equal after normalisation; when one of the two cannot be normalised, equal as written. */
export function sameMathString(left: string, right: string): boolean {
  try {
    return normalizeMath(left) === normalizeMath(right);
  } catch (error) {
    if (!(error instanceof Malformed)) throw error;
    return left === right;
  }
}

/** 1 when the last boxed answer equals the ground truth after normalising both, else 0. */
export function math(input: RewardInput): number {
  const answer = lastBoxed(input.solution_str);
  return answer !== undefined && sameMathString(answer, answerText(input.ground_truth)) ? 1 : 0;
}
