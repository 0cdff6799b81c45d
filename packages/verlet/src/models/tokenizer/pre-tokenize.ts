/** Qwen2's split: contractions, words with their leading space, single digits, punctuation runs, white space. */
export const QWEN2_PATTERN =
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

// The same without an inline flag, which V8 has only from Node 23 on. Rust's \s is Unicode White_Space, JavaScript's
// adds U+FEFF and lacks U+0085.
const SPACE = '\\p{White_Space}';
const JAVASCRIPT_PATTERN = new RegExp(
  `'(?:[sStTmMdD\\u017f]|[rR][eE]|[vV][eE]|[lL][lL])|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^${SPACE}\\p{L}\\p{N}]+[\\r\\n]*` +
    `|${SPACE}*[\\r\\n]+|${SPACE}+(?!\\P{White_Space})|${SPACE}+`,
  'gu',
);

/** The pieces that merges never cross. */
export function preTokenize(text: string): string[] {
  return text.normalize('NFC').match(JAVASCRIPT_PATTERN) ?? [];
}
