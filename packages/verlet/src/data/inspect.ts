import type { Tokenizer } from '../models/tokenizer/index.js';
import { toMessages } from './dataset/messages.js';
import { DataError, describeType, type Row, type Table } from './table/index.js';

export interface InspectOptions {
  /** The row to show. */
  row?: number;
  promptKey?: string;
  /** Measures prompts in tokens; without it only characters are counted. */
  tokenizer?: Tokenizer;
  /** Rows measured for the histogram, spread evenly over the table. */
  maxMeasured?: number;
}

/** What a person wants to know of a data file, as text. */
export async function inspectData(table: Table, options: InspectOptions = {}): Promise<string> {
  const { row: shown = 0, promptKey = promptColumn(table) } = options;
  const sections = [describeFiles(table), describeColumns(table)];
  if (shown > 0 && shown >= table.numRows) {
    throw new DataError(`row ${shown} is asked for, but there are ${table.numRows}`, { file: table.sources[0]?.path });
  }
  if (table.numRows > 0) {
    sections.push(describeRow(await table.row(shown), shown, promptKey, options.tokenizer));
    if (promptKey) sections.push(await describeLengths(table, promptKey, options));
  }
  return `${sections.join('\n\n')}\n`;
}

function promptColumn(table: Table): string | undefined {
  return ['prompt', 'messages', 'conversations', 'question', 'problem'].find((name) => table.columns.includes(name));
}

function describeFiles(table: Table): string {
  const files = table.sources.map(
    ({ path, numRows, blockRows }) => `  ${path}: ${numRows} rows in ${blockRows.length} blocks`,
  );
  return [`${table.numRows} rows`, ...files].join('\n');
}

function describeColumns(table: Table): string {
  const width = Math.max(0, ...table.columns.map((name) => name.length));
  const lines = Object.entries(table.schema).map(([name, type]) => `  ${name.padEnd(width)}  ${describeType(type)}`);
  return ['columns', ...lines].join('\n');
}

function describeRow(row: Row, index: number, promptKey: string | undefined, tokenizer?: Tokenizer): string {
  const lines = [`row ${index}`];
  const messages = promptKey ? messagesOf(row[promptKey]) : null;
  for (const { role, content } of messages ?? []) lines.push(`  [${role}]`, indent(String(content)));
  for (const [name, value] of Object.entries(row)) {
    if (messages && name === promptKey) continue;
    lines.push(`  ${name}: ${shorten(value)}`);
  }
  if (messages && tokenizer?.hasChatTemplate) {
    const text = tokenizer.applyChatTemplate(messages, { addGenerationPrompt: true });
    lines.push(`  as the model sees it (${tokenizer.encode(text).length} tokens)`, indent(text));
  }
  return lines.join('\n');
}

async function describeLengths(table: Table, promptKey: string, options: InspectOptions): Promise<string> {
  const { tokenizer, maxMeasured = 2000 } = options;
  const count = Math.min(maxMeasured, table.numRows);
  const texts: string[] = [];
  let unusable = 0;
  for (let i = 0; i < count; i++) {
    const row = await table.row(Math.floor((i * table.numRows) / count));
    const messages = messagesOf(row[promptKey]);
    if (!messages) unusable++;
    else if (tokenizer?.hasChatTemplate)
      texts.push(tokenizer.applyChatTemplate(messages, { addGenerationPrompt: true }));
    else texts.push(messages.map((message) => String(message.content)).join('\n'));
  }
  const lengths = tokenizer
    ? (await tokenizer.encodeBatch(texts)).map((ids) => ids.length)
    : texts.map((text) => text.length);
  const unit = tokenizer ? 'tokens' : 'characters';
  const title = `prompt length in ${unit} (${lengths.length} rows measured${unusable ? `, ${unusable} without a usable prompt` : ''})`;
  return [title, ...histogram(lengths)].join('\n');
}

/** Ten bars over the range, and the quantiles that one sets limits by. */
export function histogram(values: number[], bars = 10): string[] {
  if (values.length === 0) return ['  nothing to measure'];
  const sorted = [...values].sort((a, b) => a - b);
  const quantile = (q: number) => sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))] as number;
  const [low, high] = [sorted[0] as number, sorted.at(-1) as number];
  const step = Math.max(1, Math.ceil((high - low + 1) / bars));
  const counts = new Array<number>(Math.floor((high - low) / step) + 1).fill(0);
  for (const value of sorted)
    counts[Math.floor((value - low) / step)] = (counts[Math.floor((value - low) / step)] as number) + 1;
  const tallest = Math.max(...counts);
  const width = String(high + step).length;
  const lines = counts.map((count, i) => {
    const from = low + i * step;
    const bar = '█'.repeat(Math.ceil((40 * count) / tallest));
    return `  ${String(from).padStart(width)} - ${String(from + step - 1).padStart(width)}  ${bar} ${count}`;
  });
  return [...lines, `  min ${low}, median ${quantile(0.5)}, 95% ${quantile(0.95)}, 99% ${quantile(0.99)}, max ${high}`];
}

function messagesOf(cell: unknown) {
  try {
    return toMessages(cell, {});
  } catch {
    return null;
  }
}

function indent(text: string): string {
  return text.replace(/^/gm, '    ');
}

function shorten(value: unknown): string {
  const plain = (_key: string, item: unknown) =>
    typeof item === 'bigint' ? String(item) : item instanceof Uint8Array ? `<${item.length} bytes>` : item;
  const text = typeof value === 'string' ? JSON.stringify(value) : (JSON.stringify(value, plain) ?? 'null');
  return text.length > 200 ? `${text.slice(0, 197)}...` : text;
}
