/** Final answers out of worked solutions. */

/** What follows the last `####` (GSM8K), without thousands separators and currency marks. */
export function hashAnswer(solution: string): string | null {
  const match = /####\s*(-?[\d.,$]*\d)\.?\s*$/.exec(solution.trimEnd());
  return match ? (match[1] as string).replace(/[,$]/g, '') : null;
}

/** The content of the last `\boxed{...}` or `\fbox{...}`, braces balanced; `\boxed 5` counts as well. */
export function boxedAnswer(solution: string): string | null {
  const start = Math.max(solution.lastIndexOf('\\boxed'), solution.lastIndexOf('\\fbox'));
  if (start < 0) return null;
  let at = start + (solution.startsWith('\\boxed', start) ? 6 : 5);
  while (solution[at] === ' ') at++;
  if (solution[at] !== '{') return /^[^\s$]+/.exec(solution.slice(at))?.[0] ?? null;
  let depth = 0;
  for (let i = at; i < solution.length; i++) {
    if (solution[i] === '\\') i++;
    else if (solution[i] === '{') depth++;
    else if (solution[i] === '}' && --depth === 0) return solution.slice(at + 1, i).trim();
  }
  return null;
}
