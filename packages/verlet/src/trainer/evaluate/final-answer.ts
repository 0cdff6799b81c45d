import { lastBoxed, normalizeMath } from '../../rewards/index.js';

/** The answer a response gives, in a form in which equal answers are equal texts; null when it gives none. */
export function finalAnswer(response: string): string | null {
  const boxed = lastBoxed(response);
  if (boxed !== undefined) return normalized(boxed);
  const marked = [...response.matchAll(/(?:####|Answer\s*:)\s*([^\n]+)/gi)].at(-1)?.[1];
  if (marked === undefined) return null;
  const plain = marked.trim().replace(/[,$]/g, '').replace(/\.$/, '');
  return plain === '' ? null : plain;
}

function normalized(answer: string): string {
  try {
    return normalizeMath(answer);
  } catch {
    // An answer that is not well-formed stands for itself.
    return answer.trim();
  }
}
