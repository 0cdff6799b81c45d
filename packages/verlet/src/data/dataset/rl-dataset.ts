import type { ChatMessage, Tokenizer, ToolSchema } from '../../models/tokenizer/index.js';
import { chatTemplate } from '../../models/tokenizer/index.js';
import { sampleWithoutReplacement } from '../loader/random.js';
import { DataError, type DataLocation, openTable, type Row, type Table } from '../table/index.js';
import { toMessages, withoutNulls } from './messages.js';
import { type Truncation, truncateIds } from './truncate.js';

export interface RlDatasetOptions {
  promptKey?: string;
  /** The column that becomes `data_source`. */
  rewardFnKey?: string;
  /** The column with the ground truth where there is no `reward_model` (EasyR1). */
  answerKey?: string | null;
  /** Columns with pictures, films and sound: rows that have some are refused. */
  mediaKeys?: readonly string[];
  maxPromptLength?: number;
  truncation?: Truncation;
  /** Leave out rows whose prompt is longer than `maxPromptLength`; `report` says how many. */
  filterOverlongPrompts?: boolean;
  /** Keep the messages (default); an agent loop needs them. */
  returnRawChat?: boolean;
  /** Add `full_prompts`, the prompt as text. */
  returnFullPrompt?: boolean;
  /** Jinja text with `{{ content }}` and the row's columns, put around the last user message. */
  formatPrompt?: string | null;
  chatTemplate?: string;
  applyChatTemplateKwargs?: Record<string, unknown>;
  /** Tool schemas that the template shows and that count in the prompt's length. */
  tools?: readonly ToolSchema[];
  /** Use this many rows: the first ones, or a seeded choice when `shuffle`. -1 is all. */
  maxSamples?: number;
  shuffle?: boolean;
  seed?: number;
  onProgress?: (done: number, total: number) => void;
}

/** One prompt on its way to the rollout. The row's other columns ride along under their own names. */
export interface RlItem {
  /** Position in the dataset; unique, so it can serve as a group key. */
  index: number;
  /** After the chat template, cut to `maxPromptLength`, without padding. */
  promptIds: Int32Array;
  rawPrompt: ChatMessage[];
  data_source: string;
  reward_model?: { style?: string; ground_truth?: unknown; [field: string]: unknown };
  extra_info: Record<string, unknown>;
  agent_name?: string;
  tools_kwargs: Record<string, unknown>;
  interaction_kwargs: Record<string, unknown>;
  [column: string]: unknown;
}

export interface DatasetReport {
  /** Rows in the files. */
  total: number;
  /** Left out because of `maxSamples`. */
  notSampled: number;
  /** Left out because the prompt is too long. */
  overlong: number;
  kept: number;
}

const MEDIA_KEYS = ['images', 'videos', 'audios'];
const FILTER_BATCH = 256;

/**
 * verl's RLHFDataset: rows of prompts as token ids.
 *
 * @example
 * const dataset = await RlDataset.open('gsm8k/train.parquet', tokenizer, { maxPromptLength: 512 });
 * const { promptIds, reward_model } = await dataset.item(0);
 */
export class RlDataset {
  private constructor(
    readonly table: Table,
    readonly tokenizer: Tokenizer,
    private readonly options: RlDatasetOptions,
    /** Row of the table for each item. */
    private readonly rowIndices: Int32Array,
    readonly report: DatasetReport,
  ) {}

  static async open(
    files: string | readonly string[],
    tokenizer: Tokenizer,
    options: RlDatasetOptions = {},
  ): Promise<RlDataset> {
    const table = await openTable(files);
    try {
      return await RlDataset.fromTable(table, tokenizer, options);
    } catch (error) {
      await table.close();
      throw error;
    }
  }

  static async fromTable(table: Table, tokenizer: Tokenizer, options: RlDatasetOptions = {}): Promise<RlDataset> {
    const { promptKey = 'prompt', maxSamples = -1, shuffle = false, seed = 1 } = options;
    for (const { path, schema, numRows } of table.sources) {
      if (numRows > 0 && !Object.hasOwn(schema, promptKey)) {
        throw new DataError(
          `there is no such column; the file has ${Object.keys(schema).join(', ')}. Name the right one in data.prompt_key`,
          { file: path, column: promptKey },
        );
      }
    }
    const total = table.numRows;
    let rows: Int32Array = Int32Array.from({ length: total }, (_, index) => index);
    if (maxSamples >= 0 && maxSamples < total) {
      rows = shuffle ? sampleWithoutReplacement(total, maxSamples, seed) : rows.slice(0, maxSamples);
    }
    const report: DatasetReport = { total, notSampled: total - rows.length, overlong: 0, kept: rows.length };
    const dataset = new RlDataset(table, tokenizer, options, rows, report);
    if (!options.filterOverlongPrompts) return dataset;
    const kept = await dataset.shortRows();
    const filtered = { ...report, overlong: rows.length - kept.length, kept: kept.length };
    if (kept.length === 0 && rows.length > 0) {
      throw new DataError(
        `all ${rows.length} prompts are longer than data.max_prompt_length=${dataset.maxPromptLength} tokens`,
        { file: table.sources[0]?.path },
      );
    }
    return new RlDataset(table, tokenizer, options, kept, filtered);
  }

  get length(): number {
    return this.rowIndices.length;
  }

  private get maxPromptLength(): number {
    return this.options.maxPromptLength ?? 512;
  }

  async item(index: number): Promise<RlItem> {
    const rowIndex = this.rowIndices[index];
    if (rowIndex === undefined) throw new RangeError(`item ${index} asked of a dataset with ${this.length}`);
    const row = await this.table.row(rowIndex);
    const { messages, text } = this.render(row, rowIndex);
    return this.assemble(index, row, messages, text, this.cut(this.tokenizer.encode(text), rowIndex));
  }

  /** Several items; rows of one block are decoded once. */
  async items(indices: ArrayLike<number>): Promise<RlItem[]> {
    return Promise.all(Array.from(indices, (index) => this.item(index)));
  }

  async close(): Promise<void> {
    await this.table.close();
  }

  private location(rowIndex: number, column: string): DataLocation {
    return { ...this.table.locate(rowIndex), column };
  }

  private render(row: Row, rowIndex: number): { messages: ChatMessage[]; text: string } {
    const { promptKey = 'prompt', mediaKeys = MEDIA_KEYS, formatPrompt, tools, applyChatTemplateKwargs } = this.options;
    for (const key of mediaKeys) {
      const media = row[key];
      if (media === null || media === undefined || (Array.isArray(media) && media.length === 0)) continue;
      throw new DataError(
        'holds media; only text models are trained for now. Drop the column, or point data.image_key, data.video_key or data.audio_key elsewhere',
        this.location(rowIndex, key),
      );
    }
    const where = this.location(rowIndex, promptKey);
    let messages = toMessages(row[promptKey], where);
    try {
      if (formatPrompt) messages = formatted(messages, formatPrompt, row);
      const text = this.tokenizer.applyChatTemplate(messages, {
        addGenerationPrompt: true,
        tools: selectedTools(tools, row),
        chatTemplate: this.options.chatTemplate,
        kwargs: applyChatTemplateKwargs,
      });
      return { messages, text };
    } catch (error) {
      throw new DataError((error as Error).message, where, { cause: error });
    }
  }

  private cut(ids: Int32Array, rowIndex: number): Int32Array {
    const { truncation = 'error', promptKey = 'prompt' } = this.options;
    if (ids.length <= this.maxPromptLength) return ids;
    if (truncation !== 'error') return truncateIds(ids, this.maxPromptLength, truncation);
    throw new DataError(
      `the prompt has ${ids.length} tokens, more than data.max_prompt_length=${this.maxPromptLength}. Raise that, set ` +
        'data.truncation to left, right or middle, or data.filter_overlong_prompts=true',
      this.location(rowIndex, promptKey),
    );
  }

  private assemble(index: number, row: Row, messages: ChatMessage[], text: string, promptIds: Int32Array): RlItem {
    const { promptKey = 'prompt', rewardFnKey = 'data_source', answerKey, returnRawChat = true } = this.options;
    const { [promptKey]: _prompt, ...columns } = row;
    const extraInfo = (row.extra_info ?? {}) as Record<string, unknown>;
    const keywordArguments = (name: string) =>
      withoutNulls(row[name] ?? extraInfo[name] ?? {}) as Record<string, unknown>;
    const item: RlItem = {
      ...columns,
      index,
      promptIds,
      rawPrompt: returnRawChat ? messages : [],
      data_source: String(row[rewardFnKey] ?? 'unknown'),
      extra_info: extraInfo,
      tools_kwargs: keywordArguments('tools_kwargs'),
      interaction_kwargs: keywordArguments('interaction_kwargs'),
    };
    if (answerKey && !row.reward_model) item.reward_model = { style: 'rule', ground_truth: row[answerKey] };
    if (row.agent_name === null) delete item.agent_name;
    if (this.options.returnFullPrompt) item.full_prompts = text;
    return item;
  }

  /** Rows whose prompt fits, measured in batches that the tokenizer works on in parallel. */
  private async shortRows(): Promise<Int32Array> {
    const kept: number[] = [];
    for (let start = 0; start < this.length; start += FILTER_BATCH) {
      const rows = this.rowIndices.subarray(start, start + FILTER_BATCH);
      const texts: string[] = [];
      for (const rowIndex of rows) texts.push(this.render(await this.table.row(rowIndex), rowIndex).text);
      const encoded = await this.tokenizer.encodeBatch(texts);
      encoded.forEach((ids, i) => {
        if (ids.length <= this.maxPromptLength) kept.push(rows[i] as number);
      });
      this.options.onProgress?.(start + rows.length, this.length);
    }
    return Int32Array.from(kept);
  }
}

/** EasyR1: the template is put around the question, which is the last user message. */
function formatted(messages: ChatMessage[], source: string, row: Row): ChatMessage[] {
  const at = messages.findLastIndex((message) => message.role === 'user');
  if (at < 0) throw new Error('data.format_prompt needs a user message to put the template around');
  const { content } = messages[at] as ChatMessage;
  const text = chatTemplate(source).render({ ...row, content });
  return messages.with(at, { ...(messages[at] as ChatMessage), content: text });
}

/** A row may name the tools it wants in `extra_info.tool_selection`. */
function selectedTools(tools: readonly ToolSchema[] | undefined, row: Row): readonly ToolSchema[] | null {
  if (!tools || tools.length === 0) return null;
  const selection = (row.extra_info as { tool_selection?: unknown } | null | undefined)?.tool_selection;
  if (!Array.isArray(selection)) return tools;
  const unknown = selection.filter((name) => !tools.some((tool) => tool.function.name === name));
  if (unknown.length > 0)
    throw new Error(`extra_info.tool_selection names tools that do not exist: ${unknown.join(', ')}`);
  return tools.filter((tool) => selection.includes(tool.function.name));
}
