import type { TruncateSide } from '../types.js';

/** Cuts a tool's text to `limit` characters: `left` keeps the tail, `right` the head, `middle` half of each. */
export function truncateToolResponse(
  text: string,
  limit: number,
  side: TruncateSide,
): { text: string; truncated: boolean } {
  if (text.length <= limit) return { text, truncated: false };
  const half = Math.floor(limit / 2);
  const cut = {
    left: () => `(truncated)...${text.slice(text.length - limit)}`,
    right: () => `${text.slice(0, limit)}...(truncated)`,
    middle: () => `${text.slice(0, half)}...(truncated)...${text.slice(text.length - half)}`,
  }[side]();
  return { text: withoutHalfCharacters(cut), truncated: true };
}

/** A cut through a surrogate pair leaves half a character, which no tokenizer gives back. */
function withoutHalfCharacters(text: string): string {
  return text.replace(/[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/g, '');
}
