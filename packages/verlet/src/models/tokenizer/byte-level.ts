/**
 * GPT-2's byte alphabet: every byte has a visible character, so that a vocabulary of arbitrary bytes is plain text.
 * Bytes that are visible already stand for themselves, the others are moved to U+0100 and up.
 */
const BYTE_TO_CHARACTER: string[] = [];
const CHARACTER_TO_BYTE = new Map<string, number>();

let moved = 0;
for (let byte = 0; byte < 256; byte++) {
  const isVisible = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
  const character = String.fromCharCode(isVisible ? byte : 256 + moved++);
  BYTE_TO_CHARACTER.push(character);
  CHARACTER_TO_BYTE.set(character, byte);
}

/** The 256 characters in the order every byte-level vocabulary starts with. */
export const BYTE_ALPHABET: readonly string[] = [...BYTE_TO_CHARACTER].sort();

const encoder = new TextEncoder();

/** Text as byte characters: `' a'` becomes `'Ġa'`. */
export function toByteCharacters(text: string): string {
  let characters = '';
  for (const byte of encoder.encode(text)) characters += BYTE_TO_CHARACTER[byte];
  return characters;
}

/** The bytes a token stands for. A token with characters outside the alphabet (an added token) is its own UTF-8. */
export function tokenBytes(token: string): Uint8Array {
  const bytes = new Uint8Array(token.length);
  for (let i = 0; i < token.length; i++) {
    const byte = CHARACTER_TO_BYTE.get(token[i] as string);
    if (byte === undefined) return encoder.encode(token);
    bytes[i] = byte;
  }
  return bytes;
}
