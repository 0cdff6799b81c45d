import type { ChatMessage, ContentPart } from '../../models/tokenizer/index.js';
import { DataError, type DataLocation, describeValue } from '../table/index.js';

/**
 * A prompt cell as messages: a list of {role, content}, or a plain question, which becomes a user message. Fields that a
 * columnar file padded with null are dropped, so that templates do not take them for present.
 */
export function toMessages(cell: unknown, where: DataLocation): ChatMessage[] {
  if (typeof cell === 'string') {
    if (cell.trim() === '') throw new DataError('the prompt is empty', where);
    return [{ role: 'user', content: cell }];
  }
  if (!Array.isArray(cell)) {
    throw new DataError(`is to hold a list of {role, content} or a text, got ${describeValue(cell)}`, where);
  }
  if (cell.length === 0) throw new DataError('the conversation is empty', where);
  return cell.map((message, index) => toMessage(message, { ...where, column: `${where.column}[${index}]` }));
}

function toMessage(value: unknown, where: DataLocation): ChatMessage {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new DataError(`is to be a message {role, content}, got ${describeValue(value)}`, where);
  }
  const message = withoutNulls(value) as Partial<ChatMessage>;
  if (typeof message.role !== 'string' || message.role === '') {
    throw new DataError(`a message needs a role, got ${describeValue(message.role)}`, where);
  }
  const { content } = message;
  if (Array.isArray(content)) return { ...message, role: message.role, content: textOfParts(content, where) };
  if (content !== undefined && typeof content !== 'string') {
    throw new DataError(`the content of a message is to be text, got ${describeValue(content)}`, where);
  }
  if (content === undefined && !message.tool_calls) throw new DataError('the message has no content', where);
  return { ...message, role: message.role, content: content ?? '' };
}

/** Content in parts, all of which have to be text. */
function textOfParts(parts: ContentPart[], where: DataLocation): string {
  return parts
    .map((part) => {
      if (part?.type === 'text' && typeof part.text === 'string') return part.text;
      throw new DataError(`holds a part of type "${part?.type}"; only text models are trained for now`, where);
    })
    .join('');
}

/** Without null fields, at any depth: a struct column has every field that any row has. */
export function withoutNulls(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutNulls);
  if (typeof value !== 'object' || value === null || Object.getPrototypeOf(value) !== Object.prototype) return value;
  const kept: Record<string, unknown> = {};
  for (const [name, field] of Object.entries(value)) {
    if (field !== null && field !== undefined) kept[name] = withoutNulls(field);
  }
  return kept;
}
