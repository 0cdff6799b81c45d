import type { ChatMessage, ToolCall } from '../../models/tokenizer/index.js';
import { withoutNulls } from '../dataset/messages.js';
import { DataError, type DataLocation, describeValue, type Row } from '../table/index.js';

/** A conversation in one shape, whatever file it came from. */
export interface Conversation {
  system: string | null;
  /** Without the system message. */
  messages: ChatMessage[];
  tools: unknown;
}

const ROLES: Record<string, string> = {
  user: 'user',
  human: 'user',
  assistant: 'assistant',
  gpt: 'assistant',
  chatgpt: 'assistant',
  bard: 'assistant',
  bing: 'assistant',
  bot: 'assistant',
  model: 'assistant',
  function_call: 'assistant',
  system: 'system',
  tool: 'tool',
  function: 'tool',
  function_response: 'tool',
  observation: 'tool',
};

/**
 * Reads a row of any of three formats: `system` with `conversations` of {from, value}; ShareGPT (the same with human, gpt
 * and friends); OpenAI `messages` of {role, content}.
 */
export function readConversation(row: Row, where: DataLocation): Conversation {
  const column = ['conversations', 'conversation', 'messages'].find((name) => Array.isArray(row[name]));
  if (!column) {
    throw new DataError(
      `has no list "conversations" or "messages"; the fields are ${Object.keys(row).join(', ')}`,
      where,
    );
  }
  const turns = row[column] as unknown[];
  if (turns.length === 0) throw new DataError('the conversation is empty', { ...where, column });
  const messages = turns.map((turn, index) => readTurn(turn, { ...where, column: `${column}[${index}]` }));
  let system = systemText(row, where);
  if (messages[0]?.role === 'system') {
    const own = messages.shift()?.content as string;
    system = system === null ? own : `${system}\n${own}`;
  }
  const late = messages.findIndex((message) => message.role === 'system');
  if (late >= 0) throw new DataError('a system message comes after the first turn', { ...where, column });
  return { system, messages, tools: row.tools ?? null };
}

function systemText(row: Row, where: DataLocation): string | null {
  const value = row.system ?? row.system_prompt ?? null;
  if (value === null || value === '') return null;
  if (typeof value !== 'string')
    throw new DataError(`is to be text, got ${describeValue(value)}`, { ...where, column: 'system' });
  return value;
}

function readTurn(turn: unknown, where: DataLocation): ChatMessage {
  if (typeof turn !== 'object' || turn === null) {
    throw new DataError(`is to be a turn {from, value} or {role, content}, got ${describeValue(turn)}`, where);
  }
  const fields = withoutNulls(turn) as Record<string, unknown>;
  const name = fields.from ?? fields.role;
  const role = typeof name === 'string' ? ROLES[name.toLowerCase()] : undefined;
  if (!role) throw new DataError(`the speaker ${describeValue(name)} is unknown`, where);
  const content = fields.value ?? fields.content ?? (fields.tool_calls ? '' : undefined);
  if (typeof content !== 'string') throw new DataError(`a turn needs text, got ${describeValue(content)}`, where);
  if (name === 'function_call') return { role, content: '', tool_calls: [readCall(content, where)] };
  const { from: _from, value: _value, role: _role, content: _content, ...rest } = fields;
  return { role, content, ...rest };
}

function readCall(text: string, where: DataLocation): ToolCall {
  try {
    const call = JSON.parse(text) as { name?: unknown; arguments?: unknown };
    if (typeof call.name !== 'string') throw new Error('it has no name');
    return {
      type: 'function',
      function: { name: call.name, arguments: (call.arguments ?? {}) as Record<string, unknown> },
    };
  } catch (error) {
    throw new DataError(`a function_call is to be {"name", "arguments"}: ${(error as Error).message}`, where);
  }
}
