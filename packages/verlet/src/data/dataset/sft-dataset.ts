import type { ChatMessage, Tokenizer, ToolSchema } from '../../models/tokenizer/index.js';
import { DataError, type DataLocation, describeValue, openTable, type Row, type Table } from '../table/index.js';
import { toMessages, withoutNulls } from './messages.js';
import { type Truncation, truncateIds } from './truncate.js';

export interface SftDatasetOptions {
  /** Single turn: columns with question and answer; `dictKeys` lead to a value inside a struct. */
  promptKey?: string;
  responseKey?: string;
  promptDictKeys?: readonly string[] | null;
  responseDictKeys?: readonly string[] | null;
  /** Whole conversations instead: every assistant turn is learned. */
  multiturn?: { messagesKey?: string; toolsKey?: string; enableThinkingKey?: string } | null;
  maxLength?: number;
  truncation?: Truncation;
  chatTemplate?: string;
  applyChatTemplateKwargs?: Record<string, unknown>;
  /**
   * Some templates render an earlier turn differently once another follows (Qwen3 drops its thoughts). Such a row is an
   * error; when accepted, turns before the change are context only and are not learned.
   */
  ignoreInputIdsMismatch?: boolean;
  /** Use the first rows only; -1 is all. */
  maxSamples?: number;
}

export interface SftItem {
  index: number;
  inputIds: Int32Array;
  /** 1 where the token is to be learned: what the assistant says, and the token that ends its turn. */
  lossMask: Uint8Array;
}

/** A stretch of text that is tokenised by itself, as it would be when sampled. */
interface Segment {
  text: string;
  isLearned: boolean;
}

/** Prompts and responses, or conversations, as token ids with a loss mask. */
export class SftDataset {
  private constructor(
    readonly table: Table,
    private readonly tokenizer: Tokenizer,
    private readonly options: SftDatasetOptions,
    readonly length: number,
  ) {}

  static async open(
    files: string | readonly string[],
    tokenizer: Tokenizer,
    options: SftDatasetOptions = {},
  ): Promise<SftDataset> {
    const table = await openTable(files);
    const { multiturn, promptKey = 'question', responseKey = 'answer', maxSamples = -1 } = options;
    const needed = multiturn ? [multiturn.messagesKey ?? 'messages'] : [promptKey, responseKey];
    for (const { path, schema, numRows } of table.sources) {
      const column = needed.find((name) => numRows > 0 && !Object.hasOwn(schema, name));
      if (column === undefined) continue;
      await table.close();
      const columns = Object.keys(schema);
      const hint = multiturn
        ? 'name it with data.multiturn.messages_key'
        : columns.includes('messages')
          ? 'for conversations set data.multiturn.enable=true'
          : 'name prompt and answer with data.prompt_key and data.response_key';
      throw new DataError(`there is no such column; the file has ${columns.join(', ')}. Please ${hint}`, {
        file: path,
        column,
      });
    }
    const length = maxSamples >= 0 ? Math.min(maxSamples, table.numRows) : table.numRows;
    return new SftDataset(table, tokenizer, options, length);
  }

  async item(index: number): Promise<SftItem> {
    const row = await this.table.row(index);
    const where = this.table.locate(index);
    const segments = this.options.multiturn ? this.conversation(row, where) : this.singleTurn(row, where);
    const encoded = segments.map(({ text }) => this.tokenizer.encode(text));
    const size = encoded.reduce((sum, ids) => sum + ids.length, 0);
    const inputIds = new Int32Array(size);
    const lossMask = new Int32Array(size);
    let at = 0;
    encoded.forEach((ids, i) => {
      inputIds.set(ids, at);
      if (segments[i]?.isLearned) lossMask.fill(1, at, at + ids.length);
      at += ids.length;
    });
    return { index, inputIds: this.cut(inputIds, where), lossMask: Uint8Array.from(this.cut(lossMask, where)) };
  }

  async items(indices: ArrayLike<number>): Promise<SftItem[]> {
    return Promise.all(Array.from(indices, (index) => this.item(index)));
  }

  async close(): Promise<void> {
    await this.table.close();
  }

  private cut(values: Int32Array, where: DataLocation): Int32Array {
    const { maxLength = 1024, truncation = 'error' } = this.options;
    if (values.length <= maxLength) return values;
    if (truncation !== 'error') return truncateIds(values, maxLength, truncation);
    throw new DataError(
      `the example has ${values.length} tokens, more than data.max_length=${maxLength}; raise that or set data.truncation`,
      where,
    );
  }

  private singleTurn(row: Row, where: DataLocation): Segment[] {
    const { promptKey = 'question', responseKey = 'answer', promptDictKeys, responseDictKeys } = this.options;
    const prompt = follow(row, promptKey, promptDictKeys, where);
    const response = follow(row, responseKey, responseDictKeys, where);
    if (typeof response !== 'string' || response === '') {
      throw new DataError(`is to be text, got ${describeValue(response)}`, { ...where, column: responseKey });
    }
    const messages = toMessages(prompt, { ...where, column: promptKey });
    const { eosTokenId } = this.tokenizer;
    const end = eosTokenId === null ? '' : (this.tokenizer.idToToken(eosTokenId) ?? '');
    return [
      { text: this.render(messages, true, null, {}, where), isLearned: false },
      { text: response + end, isLearned: true },
    ];
  }

  private conversation(row: Row, where: DataLocation): Segment[] {
    const {
      messagesKey = 'messages',
      toolsKey = 'tools',
      enableThinkingKey = 'enable_thinking',
    } = this.options.multiturn ?? {};
    const column = { ...where, column: messagesKey };
    const messages = toMessages(row[messagesKey], column);
    const tools = readTools(row[toolsKey], { ...where, column: toolsKey });
    const thinking = row[enableThinkingKey];
    const kwargs = typeof thinking === 'boolean' ? { enable_thinking: thinking } : {};
    let segments: Segment[] = [];
    let written = '';
    messages.forEach((message, i) => {
      if (message.role !== 'assistant') return;
      const before = this.render(messages.slice(0, i), true, tools, kwargs, column);
      const through = this.render(messages.slice(0, i + 1), false, tools, kwargs, column);
      if (!through.startsWith(before)) {
        throw new DataError(`the template does not continue its own generation prompt at message ${i}`, column);
      }
      if (!before.startsWith(written)) {
        if (!this.options.ignoreInputIdsMismatch) {
          throw new DataError(
            `the template renders the turns before message ${i} differently once it follows; set ` +
              'data.ignore_input_ids_mismatch=true to learn only the turns after that',
            column,
          );
        }
        segments = [];
        written = '';
      }
      segments.push({ text: before.slice(written.length), isLearned: false });
      segments.push(...this.answer(through.slice(before.length)));
      written = through;
    });
    if (!segments.some(({ isLearned }) => isLearned))
      throw new DataError('there is no assistant turn to learn', column);
    return segments;
  }

  /** What follows the end token (a newline in ChatML) is written by the template, never sampled. */
  private answer(text: string): Segment[] {
    const ends = this.tokenizer.eosTokenIds
      .map((id) => this.tokenizer.idToToken(id) ?? '')
      .filter((token) => token !== '');
    const stop = Math.max(
      ...ends.map((token) => (text.lastIndexOf(token) < 0 ? -1 : text.lastIndexOf(token) + token.length)),
      -1,
    );
    if (stop < 0) return [{ text, isLearned: true }];
    return [
      { text: text.slice(0, stop), isLearned: true },
      { text: text.slice(stop), isLearned: false },
    ];
  }

  private render(
    messages: ChatMessage[],
    addGenerationPrompt: boolean,
    tools: ToolSchema[] | null,
    kwargs: Record<string, unknown>,
    where: DataLocation,
  ): string {
    const { chatTemplate, applyChatTemplateKwargs } = this.options;
    try {
      return this.tokenizer.applyChatTemplate(messages, {
        addGenerationPrompt,
        tools,
        chatTemplate,
        kwargs: { ...applyChatTemplateKwargs, ...kwargs },
      });
    } catch (error) {
      throw new DataError((error as Error).message, where, { cause: error });
    }
  }
}

function follow(row: Row, column: string, keys: readonly string[] | null | undefined, where: DataLocation): unknown {
  let value: unknown = row[column];
  for (const key of keys ?? []) {
    if (typeof value !== 'object' || value === null || !(key in value)) {
      throw new DataError(`has no "${key}" inside`, { ...where, column });
    }
    value = (value as Record<string, unknown>)[key];
  }
  return value;
}

/** Tool schemas come as a list or, since their shapes differ, as JSON text. */
function readTools(cell: unknown, where: DataLocation): ToolSchema[] | null {
  if (cell === null || cell === undefined || cell === '') return null;
  try {
    const tools = typeof cell === 'string' ? (JSON.parse(cell) as unknown) : withoutNulls(cell);
    if (!Array.isArray(tools)) throw new Error(`got ${describeValue(tools)}`);
    return tools.length > 0 ? (tools as ToolSchema[]) : null;
  } catch (error) {
    throw new DataError(`is to be a list of tool schemas: ${(error as Error).message}`, where);
  }
}
