import { ReadableStream } from 'node:stream/web';
import type {
  LanguageModelV3,
  LanguageModelV3CallOptions,
  LanguageModelV3Content,
  LanguageModelV3GenerateResult,
  LanguageModelV3StreamPart,
  LanguageModelV3StreamResult,
  SharedV3Warning,
} from '@ai-sdk/provider';
import type { CaptureSession } from './capture-session.js';
import { chatMessagesOf, samplingOf, toolSchemasOf } from './language-model-prompt.js';
import type { ChatCall, ChatResult } from './types.js';

/** The policy as a model of the Vercel AI SDK (provider specification v3). */
export function captureLanguageModel(modelId: string, sessionOf: () => CaptureSession): LanguageModelV3 {
  return {
    specificationVersion: 'v3',
    provider: 'verlet',
    modelId,
    supportedUrls: {},
    async doGenerate(options): Promise<LanguageModelV3GenerateResult> {
      const session = sessionOf();
      const result = await session.chat(chatCallOf(options, session));
      return {
        content: contentOf(result),
        finishReason: finishReasonOf(result),
        usage: usageOf(result),
        warnings: warningsOf(options, session),
        response: { id: result.id, modelId, timestamp: new Date() },
        providerMetadata: metadataOf(result),
      };
    },
    async doStream(options): Promise<LanguageModelV3StreamResult> {
      const session = sessionOf();
      const running = await session.begin(chatCallOf(options, session));
      const parts = streamParts(running.result, modelId, warningsOf(options, session));
      return { stream: ReadableStream.from(parts) as unknown as LanguageModelV3StreamResult['stream'] };
    },
  };
}

/**
 * The answer as stream parts. It is sent when it is whole: until then nobody knows whether a text is thinking, an answer
 * or half a tool call, and in training nobody watches it appear.
 */
async function* streamParts(
  running: Promise<ChatResult>,
  modelId: string,
  warnings: SharedV3Warning[],
): AsyncGenerator<LanguageModelV3StreamPart> {
  yield { type: 'stream-start', warnings };
  const result = await running;
  yield { type: 'response-metadata', id: result.id, modelId, timestamp: new Date() };
  for (const part of contentOf(result)) {
    if (part.type === 'text' || part.type === 'reasoning') {
      const id = `${result.id}-${part.type}`;
      yield { type: `${part.type}-start`, id };
      yield { type: `${part.type}-delta`, id, delta: part.text };
      yield { type: `${part.type}-end`, id };
    } else if (part.type === 'tool-call') yield part;
  }
  yield {
    type: 'finish',
    usage: usageOf(result),
    finishReason: finishReasonOf(result),
    providerMetadata: metadataOf(result),
  };
}

function chatCallOf(options: LanguageModelV3CallOptions, { canForceCalls }: CaptureSession): ChatCall {
  const { toolChoice } = options;
  return {
    ...(canForceCalls && toolChoice?.type === 'required' ? { toolChoice: 'required' as const } : {}),
    ...(canForceCalls && toolChoice?.type === 'tool' ? { toolChoice: { name: toolChoice.toolName } } : {}),
    messages: chatMessagesOf(options.prompt),
    tools: toolSchemasOf(options),
    sampling: samplingOf(options),
    ...(options.abortSignal ? { signal: options.abortSignal } : {}),
  };
}

function contentOf({ reasoning, text, toolCalls }: ChatResult): LanguageModelV3Content[] {
  return [
    ...(reasoning === '' ? [] : [{ type: 'reasoning' as const, text: reasoning }]),
    ...(text === '' ? [] : [{ type: 'text' as const, text }]),
    ...toolCalls.map((call) => ({
      type: 'tool-call' as const,
      toolCallId: call.id,
      toolName: call.name,
      input: JSON.stringify(call.arguments),
    })),
  ];
}

function finishReasonOf({ finishReason }: ChatResult): LanguageModelV3GenerateResult['finishReason'] {
  const unified = ({ stop: 'stop', length: 'length', tool_calls: 'tool-calls', abort: 'other' } as const)[finishReason];
  return { unified, raw: finishReason };
}

function usageOf({ promptIds, tokenIds, numCachedTokens }: ChatResult): LanguageModelV3GenerateResult['usage'] {
  return {
    inputTokens: {
      total: promptIds.length,
      noCache: promptIds.length - numCachedTokens,
      cacheRead: numCachedTokens,
      cacheWrite: undefined,
    },
    outputTokens: { total: tokenIds.length, text: undefined, reasoning: undefined },
  };
}

function metadataOf({ id, promptIds, tokenIds, logProbs, weightVersions }: ChatResult) {
  return { verlet: { id, promptTokenIds: promptIds, tokenIds, logProbs, weightVersions } };
}

function warningsOf(
  { responseFormat, toolChoice }: LanguageModelV3CallOptions,
  { canForceCalls }: CaptureSession,
): SharedV3Warning[] {
  const warnings: SharedV3Warning[] = [];
  if (responseFormat?.type === 'json') {
    warnings.push({
      type: 'unsupported',
      feature: 'responseFormat json',
      details: 'sampling is not constrained to the schema',
    });
  }
  if (toolChoice && toolChoice.type !== 'auto' && toolChoice.type !== 'none' && !canForceCalls)
    warnings.push({ type: 'unsupported', feature: `toolChoice ${toolChoice.type}` });
  return warnings;
}
