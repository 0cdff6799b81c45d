/** `POST /v1/chat/completions`. */
import type { TokenEvent } from '../types.js';
import { type ChatDelta, type ChatTurn, startChatTurn, type ToolCall, type ToolChoice } from './chat-turn.js';
import {
  checkChoices,
  checkModel,
  type EndpointContext,
  newId,
  pauseFor,
  streamAnswer,
  unixSeconds,
} from './endpoint.js';
import { invalidParameter } from './errors.js';
import { chatLogProbs } from './logprobs.js';
import { fromChatMessages, fromChatTools } from './messages.js';
import { type ChatRequest, chatRequest, parseRequest, refuseUnsupported } from './requests.js';
import { readSampling } from './sampling.js';
import type { SseMessage } from './sse.js';
import { UsageCounter } from './usage.js';

export async function chatCompletions(context: EndpointContext, body: unknown): Promise<Response> {
  const request = parseRequest(chatRequest, body);
  const { options, scope, session } = context;
  refuseUnsupported(request);
  checkModel(context, request.model);
  if (request.top_logprobs && !request.logprobs) {
    throw invalidParameter('top_logprobs', "top_logprobs needs 'logprobs' to be true.");
  }
  const n = request.n ?? 1;
  checkChoices(options, n);
  const { sampling, given } = readSampling(
    request,
    { maxTokens: request.max_completion_tokens ?? request.max_tokens, topLogProbs: request.top_logprobs },
    request.max_completion_tokens ? { maxTokens: 'max_completion_tokens' } : {},
    options.vocabSize,
  );
  const turn = await startChatTurn(options, {
    messages: fromChatMessages(request.messages),
    tools: fromChatTools(request.tools),
    toolChoice: readToolChoice(request.tool_choice),
    parallelToolCalls: request.parallel_tool_calls ?? true,
    sampling,
    given,
    n,
    templateOptions: request.chat_template_kwargs ?? undefined,
    session,
    signal: scope.signal,
    pause: pauseFor(context, request.stream),
    param: 'messages',
  });
  scope.countPrompt(turn.promptIds.length);
  const writer = new ChatWriter(context, request, turn);
  return request.stream ? streamAnswer(context, writer.stream(n)) : writer.whole(n);
}

function readToolChoice(choice: ChatRequest['tool_choice']): ToolChoice {
  if (choice === null || choice === undefined) return 'auto';
  return typeof choice === 'string' ? choice : { name: choice.function.name };
}

class ChatWriter {
  private readonly id: string;
  private readonly created = unixSeconds();
  private readonly usage: UsageCounter;

  constructor(
    private readonly context: EndpointContext,
    private readonly request: ChatRequest,
    private readonly turn: ChatTurn,
  ) {
    this.id = turn.id ?? newId('chatcmpl-');
    this.usage = new UsageCounter(turn.promptIds.length);
  }

  async whole(n: number): Promise<Response> {
    const gathered = Array.from({ length: n }, () => ({
      text: '',
      reasoning: '',
      tokens: [] as TokenEvent[],
      end: undefined as ChatDelta['end'],
    }));
    for await (const delta of this.turn.deltas) {
      const choice = gathered[delta.index]!;
      this.count(delta);
      choice.text += delta.text;
      choice.reasoning += delta.reasoning ?? '';
      choice.tokens.push(...delta.tokens);
      choice.end = delta.end;
    }
    const choices = gathered.map(({ text, reasoning, tokens, end }, index) => {
      const toolCalls = (end?.toolCalls ?? []).map(wireToolCall);
      return {
        index,
        message: {
          role: 'assistant',
          content: toolCalls.length > 0 && text === '' ? null : text,
          refusal: null,
          ...(reasoning ? { reasoning_content: reasoning } : {}),
          ...(toolCalls.length > 0 ? { tool_calls: toolCalls } : {}),
        },
        logprobs: this.logProbs(tokens),
        finish_reason: end?.finishReason ?? null,
        stop_reason: end?.stopReason ?? null,
        ...this.tokenIds(tokens),
      };
    });
    this.context.scope.close();
    return Response.json({
      ...this.shape('chat.completion'),
      choices,
      usage: this.usage.chat,
      ...(this.request.return_token_ids ? { prompt_token_ids: this.turn.promptIds } : {}),
    });
  }

  async *stream(n: number): AsyncGenerator<SseMessage> {
    const wantsTokens = this.request.return_token_ids || this.request.logprobs;
    for (let index = 0; index < n; index++) {
      const promptIds = this.request.return_token_ids && index === 0 ? { prompt_token_ids: this.turn.promptIds } : {};
      yield this.chunk(index, { role: 'assistant', content: '' }, {}, promptIds);
    }
    for await (const delta of this.turn.deltas) {
      this.count(delta);
      if (delta.reasoning) yield this.chunk(delta.index, { reasoning_content: delta.reasoning });
      const tokens = wantsTokens ? { logprobs: this.logProbs(delta.tokens), ...this.tokenIds(delta.tokens) } : {};
      if (delta.text || (wantsTokens && delta.tokens.length > 0)) {
        yield this.chunk(delta.index, delta.text ? { content: delta.text } : {}, tokens);
      }
      if (!delta.end) continue;
      for (const [at, call] of delta.end.toolCalls.entries()) {
        yield this.chunk(delta.index, { tool_calls: [{ index: at, ...wireToolCall(call) }] });
      }
      yield this.chunk(delta.index, {}, { finish_reason: delta.end.finishReason, stop_reason: delta.end.stopReason });
    }
    if (this.request.stream_options?.include_usage) {
      yield { data: { ...this.shape('chat.completion.chunk'), choices: [], usage: this.usage.chat } };
    }
    yield { data: '[DONE]' };
  }

  private count(delta: ChatDelta): void {
    this.context.scope.countTokens(delta.tokens.length);
    if (delta.end) this.usage.add(delta.end);
  }

  private chunk(index: number, delta: object, choice: object = {}, top: object = {}): SseMessage {
    const usage = this.request.stream_options?.include_usage ? { usage: null } : {};
    const choices = [{ index, delta, logprobs: null, finish_reason: null, ...choice }];
    return { data: { ...this.shape('chat.completion.chunk'), choices, ...usage, ...top } };
  }

  private shape(object: string) {
    return { id: this.id, object, created: this.created, model: this.request.model };
  }

  private logProbs(tokens: TokenEvent[]) {
    if (!this.request.logprobs) return null;
    const { tokenizer } = this.context.options;
    const asTokenIds = this.request.return_tokens_as_token_ids ?? false;
    return {
      content: chatLogProbs(tokens, { tokenizer, top: this.request.top_logprobs ?? 0, asTokenIds }),
      refusal: null,
    };
  }

  private tokenIds(tokens: TokenEvent[]) {
    return this.request.return_token_ids ? { token_ids: tokens.map((token) => token.tokenId) } : {};
  }
}

function wireToolCall(call: ToolCall) {
  return { id: call.id, type: 'function', function: { name: call.name, arguments: call.arguments } };
}
