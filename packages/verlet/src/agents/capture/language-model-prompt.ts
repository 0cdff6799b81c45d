import type { LanguageModelV3CallOptions, LanguageModelV3Message } from '@ai-sdk/provider';
import type { SamplingParams } from '../../rollout/types.js';
import type { ChatMessage, ToolSchema } from '../types.js';

type Part = { type: string; [field: string]: unknown };

/** The AI SDK's prompt as chat messages. */
export function chatMessagesOf(prompt: readonly LanguageModelV3Message[]): ChatMessage[] {
  return prompt.flatMap((message): ChatMessage[] => {
    if (message.role === 'system') return [{ role: 'system', content: message.content }];
    const parts = message.content as unknown as Part[];
    if (message.role === 'user') return [{ role: 'user', content: textOfParts(parts) }];
    if (message.role === 'tool') return parts.filter(({ type }) => type === 'tool-result').map(toolMessage);
    return [assistantMessage(parts)];
  });
}

function assistantMessage(parts: readonly Part[]): ChatMessage {
  const reasoning = parts.filter(({ type }) => type === 'reasoning').map(({ text }) => text);
  const calls = parts.filter(({ type }) => type === 'tool-call');
  return {
    role: 'assistant',
    content: textOfParts(parts.filter(({ type }) => type !== 'reasoning' && type !== 'tool-call')),
    ...(reasoning.length > 0 ? { reasoning_content: reasoning.join('') } : {}),
    ...(calls.length > 0
      ? {
          tool_calls: calls.map(({ toolCallId, toolName, input }) => ({
            id: String(toolCallId),
            type: 'function' as const,
            function: { name: String(toolName), arguments: input as Record<string, unknown> | string },
          })),
        }
      : {}),
  };
}

function toolMessage({ toolCallId, toolName, output }: Part): ChatMessage {
  const { type, value, reason } = output as { type: string; value?: unknown; reason?: string };
  const content =
    type === 'execution-denied'
      ? `The call was denied. ${reason ?? ''}`.trim()
      : type === 'content'
        ? textOfParts(value as Part[])
        : typeof value === 'string'
          ? value
          : JSON.stringify(value);
  return { role: 'tool', content, tool_call_id: String(toolCallId), name: String(toolName) };
}

function textOfParts(parts: readonly Part[]): string {
  return parts
    .map((part) => {
      if (part.type === 'text') return String(part.text);
      throw new Error(`the policy reads text only; the prompt holds a part of type ${part.type}`);
    })
    .join('');
}

export function toolSchemasOf({ tools = [], toolChoice }: LanguageModelV3CallOptions): ToolSchema[] {
  if (toolChoice?.type === 'none') return [];
  return tools.flatMap((tool): ToolSchema[] =>
    tool.type === 'function'
      ? [
          {
            type: 'function',
            function: {
              name: tool.name,
              description: tool.description ?? '',
              parameters: tool.inputSchema as Record<string, unknown>,
            },
          },
        ]
      : [],
  );
}

/** Only what the caller has set: the rest stays as the training run has it. */
export function samplingOf(options: LanguageModelV3CallOptions): SamplingParams {
  const { maxOutputTokens, temperature, topP, topK, presencePenalty, frequencyPenalty, stopSequences, seed } = options;
  const set: SamplingParams = {
    maxTokens: maxOutputTokens,
    temperature,
    topP,
    topK,
    presencePenalty,
    frequencyPenalty,
    stop: stopSequences,
    seed,
  };
  return Object.fromEntries(Object.entries(set).filter(([, value]) => value !== undefined));
}
