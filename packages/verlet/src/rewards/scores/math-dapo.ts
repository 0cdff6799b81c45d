import type { RewardInput } from '../types.js';
import { balancedGroup } from './boxed.js';
import { answerText, lastCharacters } from './text.js';

export interface MathDapoOptions {
  /** Accept only an exact `\boxed{}` in the last 100 characters. */
  strict_box_verify?: boolean;
}

export type MathDapoResult = { score: number; acc: boolean; pred: string };

/** Minerva's rewriting table, in its order: each line is applied to all occurrences before the next. */
const substitutions: readonly (readonly [string, string])[] = [
  ['an ', ''],
  ['a ', ''],
  ['.$', '$'],
  ['\\$', ''],
  ['\\ ', ''],
  [' ', ''],
  ['mbox', 'text'],
  [',\\text{and}', ','],
  ['\\text{and}', ','],
  ['\\text{m}', '\\text{}'],
];

/** Words and marks that carry no value. */
const removed: readonly string[] = [
  ...'square ways integers dollars mph inches hours km units \\ldots sue points feet minutes digits cents degrees cm gm pounds meters meals edges students childrentickets multiples \\text{s} \\text{.}'.split(
    ' ',
  ),
  '\\text{\ns}',
  ...'\\text{}^2 \\text{}^3'.split(' '),
  '\\text{\n}',
  ...'\\text{} \\mathrm{th} ^\\circ ^{\\circ} \\; ,\\! {,} " \\dots'.split(' '),
];

/** The normal form of the Minerva evaluation of quantitative answers. */
export function normalizeFinalAnswer(answer: string): string {
  let text = answer.split('=').at(-1)!;
  for (const [before, after] of substitutions) text = text.replaceAll(before, after);
  for (const expression of removed) text = text.replaceAll(expression, '');
  text = text
    .replace(/[^\n]*?\$([^\n]*?)\$[^\n]*/g, (_, inside: string) => `$${inside}$`)
    .replace(/\\text\{([^\n]*?)\}/g, '$1')
    .replace(/\\textbf\{([^\n]*?)\}/g, '$1')
    .replace(/\\overline\{([^\n]*?)\}/g, '$1')
    .replace(/\\boxed\{([^\n]*)\}/g, '$1')
    .replace(/frac([^{])([^\n])/g, 'frac{$1}{$2}')
    .replace(/sqrt([^{])/g, 'sqrt{$1}')
    .replaceAll('$', '');
  if (/^\p{Nd}+$/u.test(text.replaceAll(',', ''))) text = text.replaceAll(',', '');
  return text.trim();
}

function exactBox(solution: string): string {
  const tail = lastCharacters(solution, 100);
  const at = tail.lastIndexOf('\\boxed{');
  return (at >= 0 ? balancedGroup(tail.slice(at + '\\boxed'.length)) : undefined) ?? '[INVALID]';
}

/**
 * +1 or -1. The last `Answer: ...` line counts; without one, an exact `\boxed{}` near the end does.
 */
export function mathDapo(input: RewardInput, options: MathDapoOptions = {}): MathDapoResult {
  const tail = lastCharacters(input.solution_str, 300);
  const groundTruth = answerText(input.ground_truth);
  const line = [...tail.matchAll(/Answer\s*:\s*([^\n]+)/gi)].at(-1)?.[1];
  if (options.strict_box_verify || line === undefined) {
    const pred = exactBox(tail);
    return result(pred === groundTruth, pred);
  }
  const pred = normalizeFinalAnswer(line);
  return result(pred === normalizeFinalAnswer(groundTruth), pred);
}

const result = (acc: boolean, pred: string): MathDapoResult => ({ score: acc ? 1 : -1, acc, pred });
