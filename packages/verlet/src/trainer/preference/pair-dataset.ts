/** Rows with a preferred and a rejected answer, as token ids. */
import {
  DataError,
  type DataLocation,
  type ItemSource,
  openTable,
  type Row,
  type Table,
  toMessages,
} from '../../data/index.js';
import type { ChatMessage, Tokenizer } from '../../models/tokenizer/index.js';
import type { PreferenceSettings } from './settings.js';

/** One answer with its prompt; `lossMask` is 1 on the tokens of the answer (for a reward model, on all). */
export interface Answer {
  tokenIds: Int32Array;
  lossMask: Uint8Array;
}

export interface PairItem {
  index: number;
  chosen: Answer;
  rejected: Answer;
}

export interface PairDatasetOptions {
  settings: PreferenceSettings;
  maxLength: number;
  /** -1 is all rows. */
  maxSamples: number;
  chatTemplate?: string;
  applyChatTemplateKwargs?: Record<string, unknown>;
}

/**
 * Three forms of rows are read: a prompt (text or messages) with answers as texts; a prompt with answers as lists of
 * messages; and no prompt, with answers that are whole conversations, whose common beginning is the prompt.
 */
export class PairDataset implements ItemSource<PairItem> {
  readonly length: number;

  private constructor(
    private readonly table: Table,
    private readonly tokenizer: Tokenizer,
    private readonly options: PairDatasetOptions,
  ) {
    const { maxSamples } = options;
    this.length = maxSamples >= 0 ? Math.min(maxSamples, table.numRows) : table.numRows;
  }

  static async open(
    files: string | readonly string[],
    tokenizer: Tokenizer,
    options: PairDatasetOptions,
  ): Promise<PairDataset> {
    const table = await openTable(files);
    const { chosenKey, rejectedKey } = options.settings;
    for (const { path, schema, numRows } of table.sources)
      for (const column of [chosenKey, rejectedKey]) {
        if (numRows === 0 || Object.hasOwn(schema, column)) continue;
        await table.close();
        throw new DataError(`there is no such column; the file has ${Object.keys(schema).join(', ')}`, {
          file: path,
          column,
        });
      }
    return new PairDataset(table, tokenizer, options);
  }

  async items(indices: ArrayLike<number>): Promise<PairItem[]> {
    return Promise.all(Array.from(indices, (index) => this.item(index)));
  }

  async item(index: number): Promise<PairItem> {
    const row = await this.table.row(index);
    const where = this.table.locate(index);
    const { chosenKey, rejectedKey } = this.options.settings;
    const { prompt, chosen, rejected } = this.conversations(row, where);
    return {
      index,
      chosen: this.encode(prompt, chosen, { ...where, column: chosenKey }),
      rejected: this.encode(prompt, rejected, { ...where, column: rejectedKey }),
    };
  }

  async close(): Promise<void> {
    await this.table.close();
  }

  private conversations(row: Row, where: DataLocation) {
    const { promptKey, chosenKey, rejectedKey } = this.options.settings;
    const answer = (key: string): ChatMessage[] => {
      const cell = row[key];
      if (typeof cell === 'string' && cell !== '') return [{ role: 'assistant', content: cell }];
      return toMessages(cell, { ...where, column: key });
    };
    const chosen = answer(chosenKey);
    const rejected = answer(rejectedKey);
    const given = row[promptKey];
    if (given !== null && given !== undefined)
      return { prompt: toMessages(given, { ...where, column: promptKey }), chosen, rejected };
    let shared = 0;
    const most = Math.min(chosen.length, rejected.length) - 1;
    while (shared < most && JSON.stringify(chosen[shared]) === JSON.stringify(rejected[shared])) shared++;
    if (shared === 0)
      throw new DataError('is missing, and the answers are not conversations that begin alike', {
        ...where,
        column: promptKey,
      });
    return { prompt: chosen.slice(0, shared), chosen: chosen.slice(shared), rejected: rejected.slice(shared) };
  }

  private encode(prompt: readonly ChatMessage[], answer: readonly ChatMessage[], where: DataLocation): Answer {
    if (answer[0]?.role !== 'assistant')
      throw new DataError(`the answer is to begin with a message of the assistant, not of ${answer[0]?.role}`, where);
    const before = this.render(prompt, true, where);
    const through = this.render([...prompt, ...answer], false, where);
    if (!through.startsWith(before))
      throw new DataError('the template does not continue its own generation prompt', where);
    const isScored = this.options.settings.objective === 'reward_model';
    // A reward model reads conversations as the template ends them, one text; a policy learns what it would sample.
    const promptIds = isScored ? new Int32Array(0) : this.tokenizer.encode(before);
    const answerIds = this.tokenizer.encode(isScored ? through : this.upToEnd(through.slice(before.length)));
    const size = promptIds.length + answerIds.length;
    if (size > this.options.maxLength)
      throw new DataError(
        `prompt and answer have ${size} tokens, more than data.max_length=${this.options.maxLength}; raise that`,
        where,
      );
    const tokenIds = new Int32Array(size);
    tokenIds.set(promptIds);
    tokenIds.set(answerIds, promptIds.length);
    return { tokenIds, lossMask: new Uint8Array(size).fill(1, promptIds.length) };
  }

  /** What a template writes after the token that ends a turn is never sampled. */
  private upToEnd(text: string): string {
    const ends = this.tokenizer.eosTokenIds.flatMap((id) => {
      const token = this.tokenizer.idToToken(id);
      const at = token ? text.lastIndexOf(token) : -1;
      return at < 0 ? [] : [at + token!.length];
    });
    return ends.length === 0 ? text : text.slice(0, Math.max(...ends));
  }

  private render(messages: readonly ChatMessage[], addGenerationPrompt: boolean, where: DataLocation): string {
    const { chatTemplate, applyChatTemplateKwargs: kwargs } = this.options;
    try {
      return this.tokenizer.applyChatTemplate(messages, { addGenerationPrompt, chatTemplate, kwargs });
    } catch (error) {
      throw new DataError((error as Error).message, where, { cause: error });
    }
  }
}
