/** `POST /v1/completions`: text or token ids in, text (and token ids) out. */
import type { TokenEvent } from '../types.js';
import {
  checkChoices,
  checkModel,
  type EndpointContext,
  newId,
  pauseFor,
  streamAnswer,
  unixSeconds,
} from './endpoint.js';
import { invalidParameter, unsupported } from './errors.js';
import { type ChoiceDelta, generate, merge } from './generate.js';
import { completionLogProbs } from './logprobs.js';
import { type CompletionRequest, completionRequest, parseRequest, refuseUnsupported } from './requests.js';
import { fitToContext, readSampling } from './sampling.js';
import type { SseMessage } from './sse.js';
import type { ServerTokenizer } from './types.js';
import { UsageCounter } from './usage.js';

/** OpenAI's and vLLM's default for this endpoint. */
const DEFAULT_MAX_TOKENS = 16;

export async function completions(context: EndpointContext, body: unknown): Promise<Response> {
  const request = parseRequest(completionRequest, body);
  const { options, scope, session } = context;
  refuseUnsupported(request);
  checkModel(context, request.model);
  if (session) {
    throw unsupported('prompt', 'A recorded rollout takes /v1/chat/completions or /v1/responses, not /v1/completions.');
  }
  const { sampling } = readSampling(
    request,
    { maxTokens: request.max_tokens ?? DEFAULT_MAX_TOKENS, topLogProbs: request.logprobs },
    { topLogProbs: 'logprobs' },
    options.vocabSize,
  );
  const prompts = readPrompts(request, options.tokenizer);
  const n = request.n ?? 1;
  checkChoices(options, n * prompts.length);
  const { engine, tokenizer } = options;
  const fitted = prompts.map((ids) => fitToContext(sampling, ids.length, engine.maxModelLength, 'prompt'));
  const pause = pauseFor(context, request.stream);
  const streams = prompts.map((promptIds, at) =>
    generate(engine, tokenizer, {
      promptIds,
      sampling: fitted[at]!,
      n,
      signal: scope.signal,
      pause,
      firstIndex: at * n,
    }),
  );
  const writer = new CompletionWriter(context, request, prompts, n);
  const deltas = streams.length === 1 ? streams[0]! : merge(streams);
  return request.stream ? streamAnswer(context, writer.stream(deltas)) : writer.whole(deltas);
}

function readPrompts({ prompt }: CompletionRequest, tokenizer: ServerTokenizer): number[][] {
  const list = typeof prompt === 'string' || typeof prompt[0] === 'number' ? [prompt] : prompt;
  if (list.length === 0) throw invalidParameter('prompt', 'The prompt is empty.');
  return (list as (string | number[])[]).map((one) =>
    typeof one === 'string' ? Array.from(tokenizer.encode(one, { addSpecialTokens: true })) : one,
  );
}

class CompletionWriter {
  private readonly usage: UsageCounter;
  private readonly shape: { id: string; object: string; created: number; model: string };

  constructor(
    private readonly context: EndpointContext,
    private readonly request: CompletionRequest,
    private readonly prompts: number[][],
    private readonly n: number,
  ) {
    this.usage = new UsageCounter(prompts.reduce((sum, ids) => sum + ids.length, 0));
    context.scope.countPrompt(this.usage.promptTokens);
    this.shape = { id: newId('cmpl-'), object: 'text_completion', created: unixSeconds(), model: request.model };
  }

  async whole(deltas: AsyncIterable<ChoiceDelta>): Promise<Response> {
    const gathered = Array.from({ length: this.prompts.length * this.n }, () => ({
      text: '',
      tokens: [] as TokenEvent[],
      textOffsets: [] as number[],
      end: undefined as ChoiceDelta['end'],
    }));
    for await (const delta of deltas) {
      const choice = gathered[delta.index]!;
      this.count(delta);
      choice.text += delta.text;
      choice.tokens.push(...delta.tokens);
      choice.textOffsets.push(...delta.textOffsets);
      choice.end = delta.end;
    }
    const choices = gathered.map((choice, index) => this.choice({ ...choice, index }, true));
    this.context.scope.close();
    return Response.json({ ...this.shape, choices, usage: this.usage.chat });
  }

  async *stream(deltas: AsyncIterable<ChoiceDelta>): AsyncGenerator<SseMessage> {
    const includeUsage = this.request.stream_options?.include_usage ?? false;
    const begun = new Set<number>();
    const wantsTokens = this.request.return_token_ids || typeof this.request.logprobs === 'number';
    for await (const delta of deltas) {
      this.count(delta);
      if (!delta.text && !delta.end && !wantsTokens) continue;
      const choices = [this.choice(delta, !begun.has(delta.index))];
      begun.add(delta.index);
      yield { data: { ...this.shape, choices, ...(includeUsage ? { usage: null } : {}) } };
    }
    if (includeUsage) yield { data: { ...this.shape, choices: [], usage: this.usage.chat } };
    yield { data: '[DONE]' };
  }

  private count(delta: ChoiceDelta): void {
    this.context.scope.countTokens(delta.tokens.length);
    if (delta.end) this.usage.add(delta.end);
  }

  private choice(delta: ChoiceDelta, isFirst: boolean) {
    const { request } = this;
    const style = {
      tokenizer: this.context.options.tokenizer,
      top: request.logprobs ?? 0,
      asTokenIds: request.return_tokens_as_token_ids ?? false,
    };
    const hasLogProbs = typeof request.logprobs === 'number';
    return {
      index: delta.index,
      text: delta.text,
      logprobs: hasLogProbs ? completionLogProbs(delta.tokens, style, delta.textOffsets) : null,
      finish_reason: delta.end?.finishReason ?? null,
      stop_reason: delta.end?.stopReason ?? null,
      ...(request.return_token_ids ? { token_ids: delta.tokens.map((token) => token.tokenId) } : {}),
      ...(request.return_token_ids && isFirst
        ? { prompt_token_ids: this.prompts[Math.floor(delta.index / this.n)] }
        : {}),
    };
  }
}
