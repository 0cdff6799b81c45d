import type { EvaluateResult } from './evaluate.js';

/** The result as a table for people. */
export function describeEvaluation({ sources }: EvaluateResult): string {
  const lines: string[] = [];
  for (const { dataSource, prompts, samplesPerPrompt, errors, estimates } of sources) {
    if (lines.length > 0) lines.push('');
    lines.push(`${dataSource}: ${count(prompts, 'prompt')}, ${count(samplesPerPrompt, 'response')} each`);
    const width = Math.max(...estimates.map(({ name }) => name.length));
    for (const { name, value, low, high } of estimates)
      lines.push(`  ${name.padEnd(width)}  ${value.toFixed(4)}  95% [${low.toFixed(4)}, ${high.toFixed(4)}]`);
    if (errors > 0) lines.push(`  ${count(errors, 'response')} could not be scored and count 0`);
  }
  return lines.join('\n');
}

const count = (n: number, what: string): string => `${n} ${what}${n === 1 ? '' : 's'}`;
