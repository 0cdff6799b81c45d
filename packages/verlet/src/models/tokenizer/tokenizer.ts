import { copyFile, mkdir, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Tokenizer as JavaScriptEngine } from '@huggingface/tokenizers';
import { UserError } from '../../config/errors.js';
import { tokenBytes } from './byte-level.js';
import { chatTemplate } from './chat-template.js';
import { ByteDetokenizer, type IncrementalDetokenizer, WindowDetokenizer } from './detokenizer.js';
import { loadNativeEngine, type NativeEngine } from './native-engine.js';
import { readTokenizerFiles, TOKENIZER_FILES, type TokenizerFiles } from './tokenizer-files.js';
import type { ChatMessage, ChatTemplateOptions } from './types.js';

export interface EncodeOptions {
  /** Let the file's post-processor add tokens such as `<|begin_of_text|>`. Off, since chat templates write their own. */
  addSpecialTokens?: boolean;
}

export interface DecodeOptions {
  skipSpecialTokens?: boolean;
}

/** From this many characters on, a batch is worth the way through the native engine's thread pool. */
const NATIVE_BATCH_CHARACTERS = 50_000;

/**
 * Text to token ids and back, and conversations to prompts, as the model's own Hugging Face folder defines them.
 *
 * @example
 * const tokenizer = await Tokenizer.load('models/Qwen2.5-0.5B-Instruct');
 * const ids = tokenizer.encodeChat([{ role: 'user', content: 'Hello' }], { addGenerationPrompt: true });
 */
export class Tokenizer {
  private readonly engine: JavaScriptEngine;
  private native: Promise<NativeEngine | null> | null = null;
  private readonly specialIds: ReadonlySet<number>;
  private readonly isByteLevel: boolean;
  private readonly bytesById: (Uint8Array | undefined)[] = [];

  /** Ids run from 0 to this, exclusive; a model may have more rows in its embedding. */
  readonly vocabSize: number;
  readonly bosTokenId: number | null;
  readonly eosTokenId: number | null;
  /** The padding token, else the end token (verl's rule), else 0. */
  readonly padTokenId: number;
  /** Every id that ends a generation: the tokenizer's end token and those of generation_config.json. */
  readonly eosTokenIds: readonly number[];

  private constructor(private readonly files: TokenizerFiles) {
    const { tokenizerJson, config, specialTokens } = files;
    this.engine = new JavaScriptEngine(tokenizerJson, { ...config, ...specialTokens });
    keepByteOrderMarks(this.engine.decoder as DecoderPart | null);
    const { decoder } = tokenizerJson;
    this.isByteLevel =
      decoder?.type === 'ByteLevel' || (decoder?.decoders?.some(({ type }) => type === 'ByteLevel') ?? false);
    this.specialIds = new Set(tokenizerJson.added_tokens.filter((token) => token.special).map((token) => token.id));
    let largest = -1;
    for (const id of this.engine.get_vocab().values()) largest = Math.max(largest, id);
    this.vocabSize = largest + 1;

    const idOf = (name: string) => (specialTokens[name] === undefined ? null : this.tokenToId(specialTokens[name]));
    this.bosTokenId = idOf('bos_token');
    this.eosTokenId = idOf('eos_token') ?? files.generationEosIds[0] ?? null;
    this.padTokenId = idOf('pad_token') ?? this.eosTokenId ?? 0;
    const ends = this.eosTokenId === null ? files.generationEosIds : [this.eosTokenId, ...files.generationEosIds];
    this.eosTokenIds = [...new Set(ends)];
  }

  /** `chatTemplate` takes the place of those in the folder. */
  static async load(folder: string, options: { chatTemplate?: string } = {}): Promise<Tokenizer> {
    const read = await readTokenizerFiles(folder);
    const { chatTemplate } = options;
    const files = chatTemplate === undefined ? read : { ...read, chatTemplates: { default: chatTemplate } };
    try {
      return new Tokenizer(files);
    } catch (error) {
      throw new UserError(`cannot use ${join(folder, 'tokenizer.json')}: ${(error as Error).message}`, {
        cause: error,
      });
    }
  }

  get folder(): string {
    return this.files.folder;
  }

  encode(text: string, { addSpecialTokens = false }: EncodeOptions = {}): Int32Array {
    if (text === '') return addSpecialTokens ? this.encodeText(text, true) : new Int32Array(0);
    return this.encodeText(text, addSpecialTokens);
  }

  private encodeText(text: string, addSpecialTokens: boolean): Int32Array {
    return Int32Array.from(this.engine.encode(text, { add_special_tokens: addSpecialTokens }).ids);
  }

  /**
   * Same ids as `encode`, several times faster for large sets. (The letters that came with Unicode 17 are letters to
   * recent Node versions and not yet to the native engine, so text with them may be split differently.)
   */
  async encodeBatch(texts: readonly string[], { addSpecialTokens = false }: EncodeOptions = {}): Promise<Int32Array[]> {
    const characters = texts.reduce((sum, text) => sum + text.length, 0);
    if (characters >= NATIVE_BATCH_CHARACTERS) {
      this.native ??= loadNativeEngine(this.files.tokenizerJson);
      const native = await this.native;
      if (native) return native.encodeBatch([...texts], addSpecialTokens);
    }
    return texts.map((text) => this.encode(text, { addSpecialTokens }));
  }

  /** Broken UTF-8 becomes U+FFFD. Spaces before punctuation are left as they are. */
  decode(tokenIds: ArrayLike<number>, { skipSpecialTokens = false }: DecodeOptions = {}): string {
    const kept: number[] = [];
    for (let i = 0; i < tokenIds.length; i++) {
      const id = tokenIds[i] as number;
      if (!skipSpecialTokens || !this.specialIds.has(id)) kept.push(id);
    }
    return kept.length === 0 ? '' : this.decodeKept(kept);
  }

  private decodeKept(ids: number[]): string {
    if (!this.isByteLevel) {
      const known = ids.filter((id) => this.idToToken(id) !== null);
      return known.length === 0 ? '' : this.engine.decode(known, { clean_up_tokenization_spaces: false });
    }
    const pieces = ids.map((id) => this.bytesOf(id));
    return new TextDecoder('utf-8', { ignoreBOM: true }).decode(Buffer.concat(pieces));
  }

  /** A fresh detokeniser for one stream of sampled tokens. */
  detokenizer({ skipSpecialTokens = false }: DecodeOptions = {}): IncrementalDetokenizer {
    if (!this.isByteLevel) return new WindowDetokenizer((ids) => this.decode(ids, { skipSpecialTokens }));
    const nothing = new Uint8Array(0);
    return new ByteDetokenizer((id) => (skipSpecialTokens && this.specialIds.has(id) ? nothing : this.bytesOf(id)));
  }

  /** The bytes of a token of a byte-level vocabulary; none for ids beyond it (padding rows of an embedding). */
  private bytesOf(id: number): Uint8Array {
    let bytes = this.bytesById[id];
    if (!bytes) {
      bytes = tokenBytes(this.idToToken(id) ?? '');
      this.bytesById[id] = bytes;
    }
    return bytes;
  }

  tokenToId(token: string): number | null {
    return this.engine.token_to_id(token) ?? null;
  }

  idToToken(id: number): string | null {
    return this.engine.id_to_token(id) ?? null;
  }

  isSpecial(id: number): boolean {
    return this.specialIds.has(id);
  }

  get hasChatTemplate(): boolean {
    return this.files.chatTemplates.default !== undefined;
  }

  /** The conversation as text, as `transformers.apply_chat_template(tokenize=False)` gives it. */
  applyChatTemplate(messages: readonly ChatMessage[], options: ChatTemplateOptions = {}): string {
    const { tools = null, documents = null, addGenerationPrompt = false, continueFinalMessage = false } = options;
    if (addGenerationPrompt && continueFinalMessage) {
      throw new UserError('addGenerationPrompt and continueFinalMessage exclude each other');
    }
    const text = chatTemplate(this.templateSource(options)).render(
      {
        ...this.files.specialTokens,
        messages,
        tools,
        documents,
        add_generation_prompt: addGenerationPrompt,
        ...options.kwargs,
      },
      options.now,
    );
    return continueFinalMessage ? openFinalMessage(text, messages.at(-1)) : text;
  }

  /** The conversation as token ids. */
  encodeChat(messages: readonly ChatMessage[], options: ChatTemplateOptions = {}): Int32Array {
    return this.encode(this.applyChatTemplate(messages, options));
  }

  private templateSource({ chatTemplate, tools }: ChatTemplateOptions): string {
    if (chatTemplate !== undefined) return chatTemplate;
    const { chatTemplates, folder } = this.files;
    const source = (tools && chatTemplates.tool_use) || chatTemplates.default;
    if (source === undefined) {
      throw new UserError(
        `${folder} has no chat template (chat_template.jinja, or chat_template in tokenizer_config.json). ` +
          `Base models often lack one: set actor_rollout_ref.model.custom_chat_template`,
      );
    }
    return source;
  }

  /** Writes the files another program needs to load this tokenizer. */
  async save(folder: string): Promise<void> {
    await mkdir(folder, { recursive: true });
    for (const name of TOKENIZER_FILES) {
      const temporary = join(folder, `.${name}.${process.pid}.tmp`);
      try {
        await copyFile(join(this.files.folder, name), temporary);
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'ENOENT') continue;
        throw error;
      }
      await rename(temporary, join(folder, name));
    }
  }

  /** The same tokenizer with another template, which `save` writes too. */
  async withChatTemplate(template: string, folder: string): Promise<Tokenizer> {
    await this.save(folder);
    await writeFile(join(folder, 'chat_template.jinja'), template);
    return Tokenizer.load(folder);
  }
}

interface DecoderPart {
  text_decoder?: InstanceType<typeof TextDecoder>;
  decoders?: DecoderPart[];
}

/** The library's byte-fallback decoder swallows U+FEFF, which the Rust one keeps. */
function keepByteOrderMarks(decoder: DecoderPart | null): void {
  if (decoder?.text_decoder) decoder.text_decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  for (const part of decoder?.decoders ?? []) keepByteOrderMarks(part);
}

/** Cuts what the template wrote after the last message's text. */
function openFinalMessage(text: string, last: ChatMessage | undefined): string {
  const content = typeof last?.content === 'string' ? last.content.trim() : '';
  const at = content === '' ? -1 : text.lastIndexOf(content);
  if (at < 0) {
    throw new UserError('continueFinalMessage needs a last message whose text the template prints unchanged');
  }
  return text.slice(0, at + content.length);
}
