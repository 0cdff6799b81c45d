import { mkdir, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { CHATML_TEMPLATE } from './chatml-template.js';
import { QWEN2_PATTERN } from './pre-tokenize.js';

export const DEFAULT_SPECIAL_TOKENS = ['<|endoftext|>', '<|im_start|>', '<|im_end|>'];

export interface TokenizerFolder {
  /** Token to id, contiguous from 0. */
  vocab: Record<string, number>;
  merges: [string, string][];
  specialTokens: readonly string[];
  /** Words of the vocabulary are tokens even when no merges lead to them. */
  ignoreMerges?: boolean;
  chatTemplate?: string;
}

/** Writes a folder that this package, `tokenizers` and `transformers` load alike. */
export async function writeTokenizerFolder(folder: string, tokenizer: TokenizerFolder): Promise<void> {
  const { vocab, merges, specialTokens, ignoreMerges = false, chatTemplate = CHATML_TEMPLATE } = tokenizer;
  const vocabSize = Object.keys(vocab).length;
  const addedTokens = specialTokens.map((content, index) => ({
    id: vocabSize + index,
    content,
    single_word: false,
    lstrip: false,
    rstrip: false,
    normalized: false,
    special: true,
  }));
  const byteLevel = { type: 'ByteLevel', add_prefix_space: false, trim_offsets: false, use_regex: false };
  const tokenizerJson = {
    version: '1.0',
    truncation: null,
    padding: null,
    added_tokens: addedTokens,
    normalizer: { type: 'NFC' },
    pre_tokenizer: {
      type: 'Sequence',
      pretokenizers: [
        { type: 'Split', pattern: { Regex: QWEN2_PATTERN }, behavior: 'Isolated', invert: false },
        byteLevel,
      ],
    },
    post_processor: byteLevel,
    decoder: byteLevel,
    model: {
      type: 'BPE',
      dropout: null,
      unk_token: null,
      continuing_subword_prefix: '',
      end_of_word_suffix: '',
      fuse_unk: false,
      byte_fallback: false,
      ignore_merges: ignoreMerges,
      vocab,
      merges,
    },
  };
  const config = {
    add_prefix_space: false,
    added_tokens_decoder: Object.fromEntries(addedTokens.map(({ id, ...token }) => [id, token])),
    additional_special_tokens: specialTokens.filter((token) => token.startsWith('<|im_')),
    bos_token: null,
    clean_up_tokenization_spaces: false,
    eos_token: specialTokens.includes('<|im_end|>') ? '<|im_end|>' : (specialTokens[0] ?? null),
    pad_token: specialTokens.includes('<|endoftext|>') ? '<|endoftext|>' : (specialTokens[0] ?? null),
    model_max_length: 131072,
    tokenizer_class: 'PreTrainedTokenizerFast',
    unk_token: null,
  };
  await mkdir(folder, { recursive: true });
  await writeAtomically(join(folder, 'chat_template.jinja'), chatTemplate);
  await writeAtomically(join(folder, 'tokenizer_config.json'), `${JSON.stringify(config, null, 2)}\n`);
  await writeAtomically(join(folder, 'tokenizer.json'), `${JSON.stringify(tokenizerJson, null, 1)}\n`);
}

async function writeAtomically(path: string, text: string): Promise<void> {
  const temporary = `${path}.${process.pid}.tmp`;
  await writeFile(temporary, text);
  await rename(temporary, path);
}
