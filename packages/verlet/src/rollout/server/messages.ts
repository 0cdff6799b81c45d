/** From the two wire dialects of a conversation (chat messages, response input items) to what chat templates take. */
import { invalidParameter, unsupported } from './errors.js';
import type { ChatRequest, ResponsesRequest } from './requests.js';
import type { ChatMessage, ToolSchema } from './types.js';

type WireMessage = ChatRequest['messages'][number];
type TextPart = { type: string; text?: string };

export function fromChatMessages(messages: WireMessage[]): ChatMessage[] {
  return messages.map((message, index) => {
    const plain: ChatMessage = {
      role: templateRole(message.role),
      content: textOf(message.content, `messages[${index}].content`),
    };
    if (typeof message.reasoning_content === 'string') plain.reasoning_content = message.reasoning_content;
    if (message.name) plain.name = message.name;
    if (message.tool_call_id) plain.tool_call_id = message.tool_call_id;
    if (message.tool_calls?.length) {
      plain.tool_calls = message.tool_calls.map((call) =>
        toolCall(call.id, call.function.name, call.function.arguments),
      );
    }
    return plain;
  });
}

/** `resolveItem` finds an earlier output item by id: one SDK sends references instead of what it was given. */
export function fromResponseInput(
  request: Pick<ResponsesRequest, 'input' | 'instructions'>,
  resolveItem: (id: string) => Record<string, unknown> | undefined,
): ChatMessage[] {
  const messages: ChatMessage[] = [];
  if (request.instructions) messages.push({ role: 'system', content: request.instructions });
  if (typeof request.input === 'string') return [...messages, { role: 'user', content: request.input }];
  request.input.forEach((wireItem, index) => {
    const param = `input[${index}]`;
    let item: Record<string, unknown> = wireItem;
    if (item.type === 'item_reference') {
      const found = resolveItem(String(item.id));
      if (!found) {
        throw invalidParameter(
          param,
          `Item '${item.id}' is not known here (any more). Send the items themselves: set store to false in your client.`,
          'item_not_found',
        );
      }
      item = found;
    }
    appendItem(messages, item, param);
  });
  if (messages.length === 0) throw invalidParameter('input', 'input holds no messages.');
  return messages;
}

function appendItem(messages: ChatMessage[], item: Record<string, unknown>, param: string): void {
  switch (item.type ?? 'message') {
    case 'message': {
      if (typeof item.role !== 'string')
        throw invalidParameter(`${param}.role`, `Missing required parameter: '${param}.role'.`);
      messages.push({
        role: templateRole(item.role),
        content: textOf(item.content as string | TextPart[] | undefined, `${param}.content`),
      });
      return;
    }
    case 'function_call': {
      const call = toolCall(String(item.call_id), String(item.name), String(item.arguments ?? '{}'));
      const last = messages.at(-1);
      // Text and parallel calls of one turn arrive as separate items but are one assistant message to a template.
      if (last?.role === 'assistant') last.tool_calls = [...(last.tool_calls ?? []), call];
      else messages.push({ role: 'assistant', content: '', tool_calls: [call] });
      return;
    }
    case 'function_call_output':
      messages.push({
        role: 'tool',
        tool_call_id: String(item.call_id),
        content: textOf(item.output as string | TextPart[] | undefined, `${param}.output`),
      });
      return;
    case 'reasoning':
      return; // Chat templates drop earlier thoughts.
    default:
      throw unsupported(`${param}.type`, `Input items of type '${item.type}' are not offered.`);
  }
}

export function fromChatTools(tools: ChatRequest['tools']): ToolSchema[] {
  return (tools ?? []).map((tool) => ({
    type: 'function',
    function: withoutNulls(tool.function) as ToolSchema['function'],
  }));
}

export function fromResponseTools(tools: ResponsesRequest['tools']): ToolSchema[] {
  return (tools ?? []).map(({ name, description, parameters }) => ({
    type: 'function',
    function: withoutNulls({ name, description, parameters }) as ToolSchema['function'],
  }));
}

function templateRole(role: string): string {
  if (role === 'developer') return 'system';
  return role === 'function' ? 'tool' : role;
}

function textOf(content: string | TextPart[] | null | undefined, param: string): string {
  if (content === null || content === undefined) return '';
  if (typeof content === 'string') return content;
  return content
    .map((part, index) => {
      if (typeof part.text === 'string' && /^(text|input_text|output_text)$/.test(part.type)) return part.text;
      throw unsupported(
        `${param}[${index}]`,
        `Content of type '${part.type}' is not offered; this model reads text only.`,
      );
    })
    .join('');
}

/** Templates print arguments with `tojson`; a string there would come out quoted twice. */
function toolCall(id: string, name: string, argumentsJson: string) {
  let parsed: string | Record<string, unknown> = argumentsJson;
  try {
    const value: unknown = JSON.parse(argumentsJson);
    if (typeof value === 'object' && value !== null) parsed = value as Record<string, unknown>;
  } catch {
    // A call the model wrote badly stays as it was written.
  }
  return { id, type: 'function' as const, function: { name, arguments: parsed } };
}

function withoutNulls(record: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(record).filter(([, value]) => value !== null && value !== undefined));
}
