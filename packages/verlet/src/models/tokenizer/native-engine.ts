import type { TokenizerJson } from './tokenizer-files.js';

/** The Rust tokenizer behind `encodeBatch`. Null where the binary does not load or would number tokens differently. */
export interface NativeEngine {
  encodeBatch(texts: string[], addSpecialTokens: boolean): Promise<Int32Array[]>;
}

export async function loadNativeEngine(tokenizerJson: TokenizerJson): Promise<NativeEngine | null> {
  const binding = await import('tokenizers').catch(() => null);
  if (!binding) return null;
  // Truncation and padding saved in the file would be applied here but not by the JavaScript engine.
  const native = binding.Tokenizer.fromString(JSON.stringify({ ...tokenizerJson, truncation: null, padding: null }));
  // The Rust core renumbers added tokens that do not follow the vocabulary without a gap.
  if (tokenizerJson.added_tokens.some(({ id, content }) => native.tokenToId(content) !== id)) return null;
  return {
    async encodeBatch(texts, addSpecialTokens) {
      const encodings = await native.encodeBatch(texts, { addSpecialTokens });
      return encodings.map((encoding) => Int32Array.from(encoding.getIds()));
    },
  };
}
