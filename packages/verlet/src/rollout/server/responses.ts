/** `POST /v1/responses`, the part that needs no stored conversation. */
import type { TokenEvent } from '../types.js';
import { type ChatTurn, startChatTurn, type ToolCall, type ToolChoice } from './chat-turn.js';
import { checkModel, type EndpointContext, newId, pauseFor, streamAnswer, unixSeconds } from './endpoint.js';
import { toApiError } from './errors.js';
import type { Item } from './item-store.js';
import { chatLogProbs } from './logprobs.js';
import { fromResponseInput, fromResponseTools } from './messages.js';
import { parseRequest, type ResponsesRequest, refuseUnsupported, responsesRequest } from './requests.js';
import { readSampling } from './sampling.js';
import type { SseMessage } from './sse.js';
import { UsageCounter } from './usage.js';

export async function responses(context: EndpointContext, body: unknown): Promise<Response> {
  const request = parseRequest(responsesRequest, body);
  const { options, scope, session, items } = context;
  refuseUnsupported(request);
  checkModel(context, request.model);
  const { sampling, given } = readSampling(
    request,
    { maxTokens: request.max_output_tokens, topLogProbs: request.top_logprobs },
    { maxTokens: 'max_output_tokens' },
    options.vocabSize,
  );
  const turn = await startChatTurn(options, {
    messages: fromResponseInput(request, (id) => items.get(id)),
    tools: fromResponseTools(request.tools),
    toolChoice: readToolChoice(request.tool_choice),
    parallelToolCalls: request.parallel_tool_calls ?? true,
    sampling,
    given,
    n: 1,
    session,
    signal: scope.signal,
    pause: pauseFor(context, request.stream),
    param: 'input',
  });
  scope.countPrompt(turn.promptIds.length);
  const writer = new ResponseWriter(context, request, turn);
  return request.stream ? streamAnswer(context, writer.stream()) : writer.whole();
}

function readToolChoice(choice: ResponsesRequest['tool_choice']): ToolChoice {
  if (choice === null || choice === undefined) return 'auto';
  return typeof choice === 'string' ? choice : { name: choice.name };
}

/** The events of a response in order; the whole response is what the last of them carries. */
class ResponseWriter {
  private readonly id: string;
  private readonly createdAt = unixSeconds();
  private readonly usage: UsageCounter;
  private readonly output: Item[] = [];
  private readonly tokens: TokenEvent[] = [];
  private sequence = 0;

  constructor(
    private readonly context: EndpointContext,
    private readonly request: ResponsesRequest,
    private readonly turn: ChatTurn,
  ) {
    this.id = turn.id ?? newId('resp_');
    this.usage = new UsageCounter(turn.promptIds.length);
  }

  async whole(): Promise<Response> {
    let last: unknown;
    for await (const { data } of this.events()) last = (data as { response?: unknown }).response ?? last;
    this.context.scope.close();
    return Response.json(last);
  }

  async *stream(): AsyncGenerator<SseMessage> {
    try {
      yield* this.events();
    } catch (error) {
      const apiError = toApiError(error);
      if (apiError.status === 500) (this.context.options.onError ?? console.error)(error);
      const failed = {
        ...this.response('failed'),
        error: { code: apiError.code ?? 'server_error', message: apiError.message },
      };
      yield this.event('response.failed', { response: failed });
    }
  }

  private async *events(): AsyncGenerator<SseMessage> {
    yield this.event('response.created', { response: this.response('in_progress') });
    yield this.event('response.in_progress', { response: this.response('in_progress') });
    let message: { item: Item; text: string } | undefined;
    let shownTokens = 0;
    let reasoning = '';
    for await (const delta of this.turn.deltas) {
      this.context.scope.countTokens(delta.tokens.length);
      this.tokens.push(...delta.tokens);
      reasoning += delta.reasoning ?? '';
      if (reasoning && (delta.text || delta.end)) {
        yield* this.reasoningItem(reasoning);
        reasoning = '';
      }
      const isEmptyAnswer = delta.end && !message && delta.end.toolCalls.length === 0;
      if (!message && (delta.text || isEmptyAnswer)) {
        message = {
          item: { id: newId('msg_'), type: 'message', role: 'assistant', status: 'in_progress', content: [] },
          text: '',
        };
        yield this.event('response.output_item.added', { output_index: this.output.length, item: message.item });
        const part = { type: 'output_text', text: '', annotations: [] };
        yield this.event('response.content_part.added', { ...this.at(message.item), part });
      }
      if (message && delta.text) {
        message.text += delta.text;
        const logprobs = this.logProbs(this.tokens.slice(shownTokens)) ?? [];
        shownTokens = this.tokens.length;
        yield this.event('response.output_text.delta', { ...this.at(message.item), delta: delta.text, logprobs });
      }
      if (!delta.end) continue;
      this.usage.add(delta.end);
      const status = delta.end.finishReason === 'length' ? 'incomplete' : 'completed';
      if (message) yield* this.finishMessage(message.item, message.text, status);
      for (const call of delta.end.toolCalls) yield* this.functionCall(call);
      yield this.event(`response.${status}`, { response: this.response(status) });
    }
  }

  private async *finishMessage(item: Item, text: string, status: string): AsyncGenerator<SseMessage> {
    const logprobs = this.logProbs(this.tokens);
    const part = { type: 'output_text', text, annotations: [], ...(logprobs ? { logprobs } : {}) };
    yield this.event('response.output_text.done', { ...this.at(item), text, logprobs: logprobs ?? [] });
    yield this.event('response.content_part.done', { ...this.at(item), part });
    yield this.finishItem({ ...item, status, content: [part] });
  }

  /** Thinking arrives whole: OpenAI's protocol has it as a summary, which clients show as it is. */
  private async *reasoningItem(text: string): AsyncGenerator<SseMessage> {
    const item = { id: newId('rs_'), type: 'reasoning' };
    const at = { item_id: item.id, output_index: this.output.length, summary_index: 0 };
    const part = { type: 'summary_text', text };
    yield this.event('response.output_item.added', { output_index: at.output_index, item: { ...item, summary: [] } });
    yield this.event('response.reasoning_summary_part.added', { ...at, part: { ...part, text: '' } });
    yield this.event('response.reasoning_summary_text.delta', { ...at, delta: text });
    yield this.event('response.reasoning_summary_text.done', { ...at, text });
    yield this.event('response.reasoning_summary_part.done', { ...at, part });
    yield this.finishItem({ ...item, summary: [part] });
  }

  private async *functionCall(call: ToolCall): AsyncGenerator<SseMessage> {
    const item = { id: newId('fc_'), type: 'function_call', call_id: call.id, name: call.name };
    const at = { item_id: item.id, output_index: this.output.length };
    const begun = { ...item, status: 'in_progress', arguments: '' };
    yield this.event('response.output_item.added', { output_index: at.output_index, item: begun });
    yield this.event('response.function_call_arguments.delta', { ...at, delta: call.arguments });
    yield this.event('response.function_call_arguments.done', { ...at, name: call.name, arguments: call.arguments });
    yield this.finishItem({ ...item, status: 'completed', arguments: call.arguments });
  }

  private finishItem(item: Item): SseMessage {
    this.output.push(item);
    if (this.request.store !== false) this.context.items.put(item.id as string, item);
    return this.event('response.output_item.done', { output_index: this.output.length - 1, item });
  }

  private at(item: Item) {
    return { item_id: item.id, output_index: this.output.length, content_index: 0 };
  }

  private event(type: string, fields: object): SseMessage {
    return { event: type, data: { type, sequence_number: this.sequence++, ...fields } };
  }

  private logProbs(tokens: TokenEvent[]) {
    const wanted = this.request.top_logprobs || this.request.include?.includes('message.output_text.logprobs');
    if (!wanted) return undefined;
    const asTokenIds = this.request.return_tokens_as_token_ids ?? false;
    const { tokenizer } = this.context.options;
    return chatLogProbs(tokens, { tokenizer, top: this.request.top_logprobs ?? 0, asTokenIds });
  }

  private response(status: 'in_progress' | 'completed' | 'incomplete' | 'failed') {
    const { request } = this;
    const isOver = status === 'completed' || status === 'incomplete';
    return {
      id: this.id,
      object: 'response',
      created_at: this.createdAt,
      status,
      error: null,
      incomplete_details: status === 'incomplete' ? { reason: 'max_output_tokens' } : null,
      instructions: request.instructions ?? null,
      max_output_tokens: request.max_output_tokens ?? null,
      model: request.model,
      output: [...this.output],
      parallel_tool_calls: request.parallel_tool_calls ?? true,
      previous_response_id: null,
      reasoning: { effort: null, summary: null },
      store: request.store ?? true,
      temperature: request.temperature ?? 1,
      text: { format: { type: 'text' } },
      tool_choice: request.tool_choice ?? 'auto',
      tools: request.tools ?? [],
      top_p: request.top_p ?? 1,
      truncation: request.truncation ?? 'disabled',
      usage: isOver ? this.usage.responses : null,
      metadata: request.metadata ?? {},
      ...(request.return_token_ids && isOver
        ? { prompt_token_ids: this.turn.promptIds, token_ids: this.tokens.map((token) => token.tokenId) }
        : {}),
    };
  }
}
