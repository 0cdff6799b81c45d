import { BYTE_ALPHABET, toByteCharacters } from './byte-level.js';
import { preTokenize } from './pre-tokenize.js';
import { Tokenizer } from './tokenizer.js';
import { DEFAULT_SPECIAL_TOKENS, writeTokenizerFolder } from './tokenizer-folder.js';

export interface ClosedVocabularyOptions {
  folder: string;
  specialTokens?: readonly string[];
  /**
   * What an unknown word is spelled with: all 256 `bytes` (any text round-trips), the `characters` seen in the texts, or
   * `nothing` (the smallest vocabulary; an unknown word encodes to no token at all).
   */
  spelling?: 'bytes' | 'characters' | 'nothing';
  chatTemplate?: string;
}

/**
 * A tokenizer whose tokens are the words (with their leading space), digits and marks of some texts: for small models that
 * learn a closed language in minutes. It is written as byte-level BPE without merges, so every library loads it.
 */
export async function closedVocabulary(texts: Iterable<string>, options: ClosedVocabularyOptions): Promise<Tokenizer> {
  const { folder, specialTokens = DEFAULT_SPECIAL_TOKENS, spelling = 'characters', chatTemplate } = options;
  const words = new Set<string>();
  for (const text of texts) {
    for (const piece of preTokenize(text)) words.add(toByteCharacters(piece));
  }
  const seen = spelling === 'characters' ? [...new Set([...words].join(''))].sort() : [];
  const characters = spelling === 'bytes' ? BYTE_ALPHABET : seen;
  const tokens = [...new Set([...characters, ...[...words].sort()])];
  const vocab = Object.fromEntries(tokens.map((token, id) => [token, id]));
  await writeTokenizerFolder(folder, { vocab, merges: [], specialTokens, ignoreMerges: true, chatTemplate });
  return Tokenizer.load(folder);
}
