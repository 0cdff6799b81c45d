/**
 * One model turn of a conversation, the part that `/v1/chat/completions` and `/v1/responses` share: render, sample,
 * find tool calls. A turn that belongs to a rollout goes through its capture session instead of straight to the engine.
 */
import { randomUUID } from 'node:crypto';
import type { CompleteSamplingParams } from '../sampling-params.js';
import type { SamplingParams, TokenEvent } from '../types.js';
import { invalidParameter, unsupported } from './errors.js';
import { abortError, type ChoiceDelta, type ChoiceEnd, generate } from './generate.js';
import { fitToContext } from './sampling.js';
import { heldBack } from './text-stream.js';
import { opensThought, separateThinking } from './thinking.js';
import type { CaptureSession, ChatMessage, ParsedTurn, ServerOptions, ToolCallParser, ToolSchema } from './types.js';

export type ToolChoice = 'none' | 'auto' | 'required' | { name: string };

export interface ChatTurnRequest {
  messages: ChatMessage[];
  tools: ToolSchema[];
  toolChoice: ToolChoice;
  parallelToolCalls: boolean;
  sampling: CompleteSamplingParams;
  /** Only what the client asked for. */
  given: SamplingParams;
  n: number;
  templateOptions?: Record<string, unknown>;
  session?: CaptureSession;
  signal: AbortSignal;
  /** See `GenerateRequest.pause`. */
  pause: () => number;
  /** The request field the conversation came in, for errors. */
  param: string;
}

export interface ToolCall {
  id: string;
  name: string;
  arguments: string;
}

export interface ChatDelta {
  index: number;
  /** Content that is certainly not part of a tool call. */
  text: string;
  /** Thinking, where it is told apart. */
  reasoning?: string;
  tokens: TokenEvent[];
  end?: Omit<ChoiceEnd, 'finishReason'> & { finishReason: 'stop' | 'length' | 'tool_calls'; toolCalls: ToolCall[] };
}

export interface ChatTurn {
  /** The recorded call's id, when there is a session. */
  id?: string;
  promptIds: number[];
  deltas: AsyncGenerator<ChatDelta>;
}

export async function startChatTurn(options: ServerOptions, request: ChatTurnRequest): Promise<ChatTurn> {
  checkToolChoice(request);
  const tools = request.toolChoice === 'none' ? [] : request.tools;
  if (request.session) return captureTurn(request.session, { ...request, tools });

  const { engine, tokenizer, toolCallParser: parser } = options;
  if (tools.length > 0 && !parser) {
    throw unsupported('tools', 'This server runs without a tool-call parser; start it with one to use tools.');
  }
  const promptIds = renderPrompt(options, request, tools);
  const forced = tools.length > 0 ? forcedPrefix(request.toolChoice, parser!) : '';
  if (forced) promptIds.push(...Array.from(tokenizer.encode(forced)));
  const sampling = fitToContext(request.sampling, promptIds.length, engine.maxModelLength, request.param);
  const sampled = generate(engine, tokenizer, {
    promptIds,
    sampling,
    n: request.n,
    signal: request.signal,
    pause: request.pause,
    keepSpecialTokens: tools.length > 0 && parser!.needsSpecialTokens,
  });
  const isThoughtOpen = opensThought(tokenizer.decode(promptIds.slice(-PROMPT_TAIL)));
  const deltas = options.separateThinking === false ? sampled : separateThinking(sampled, isThoughtOpen);
  if (tools.length === 0) return { promptIds, deltas: withoutTools(deltas) };
  return { promptIds, deltas: withTools(deltas, parser!, tools, forced, request.parallelToolCalls) };
}

/** Enough tokens to see whether the prompt ends with an opening tag. */
const PROMPT_TAIL = 12;

function renderPrompt({ tokenizer }: ServerOptions, request: ChatTurnRequest, tools: ToolSchema[]): number[] {
  const { messages, templateOptions, param } = request;
  try {
    const options = { tools: tools.length > 0 ? tools : null, addGenerationPrompt: true, kwargs: templateOptions };
    return Array.from(tokenizer.encodeChat(messages, options));
  } catch (error) {
    // Templates refuse conversations they cannot write (roles out of order) and say so themselves.
    throw invalidParameter(param, `The chat template cannot render this: ${(error as Error).message}`);
  }
}

function checkToolChoice({ tools, toolChoice }: ChatTurnRequest): void {
  if (toolChoice === 'none' || toolChoice === 'auto') return;
  if (tools.length === 0) throw invalidParameter('tool_choice', 'tool_choice asks for a call, but tools is empty.');
  if (toolChoice !== 'required' && !tools.some((tool) => tool.function.name === toolChoice.name)) {
    throw invalidParameter('tool_choice', `tool_choice names '${toolChoice.name}', which is not among the tools.`);
  }
}

/** Calls are forced by beginning one on the model's behalf: what it then writes can only complete it. */
function forcedPrefix(toolChoice: ToolChoice, parser: ToolCallParser): string {
  if (toolChoice === 'auto' || toolChoice === 'none') return '';
  if (!parser.forcedPrefix) throw cannotForce();
  return parser.forcedPrefix(toolChoice === 'required' ? undefined : toolChoice.name);
}

function cannotForce() {
  return unsupported('tool_choice', "This model's tool-call parser cannot force a call; use 'auto' or 'none'.");
}

type SpokenDelta = ChoiceDelta & { reasoning?: string };

async function* withoutTools(deltas: AsyncGenerator<SpokenDelta>): AsyncGenerator<ChatDelta> {
  for await (const { end, ...delta } of deltas) yield end ? { ...delta, end: { ...end, toolCalls: [] } } : delta;
}

async function* withTools(
  deltas: AsyncGenerator<SpokenDelta>,
  parser: ToolCallParser,
  tools: ToolSchema[],
  forced: string,
  parallel: boolean,
): AsyncGenerator<ChatDelta> {
  const contents = new Map<number, { text: string; shown: number }>();
  for await (const { index, text, reasoning, tokens, end } of deltas) {
    const content = contents.get(index) ?? { text: '', shown: 0 };
    contents.set(index, content);
    content.text += text;
    if (!end) {
      const until = forced ? 0 : certainLength(content.text, parser.startMarkers);
      yield { index, text: content.text.slice(content.shown, until), reasoning, tokens };
      content.shown = Math.max(content.shown, until);
      continue;
    }
    const thought = thoughtOf(content.text);
    const parsed = parser.parse(forced + content.text.slice(thought.length), tools);
    // Ids of our own: some formats number calls from zero in every turn, and histories need them unique.
    const toolCalls = parsed.calls.map((call) => toToolCall({ ...call, id: undefined }));
    const hasCalls = toolCalls.length > 0;
    const spoken = hasCalls ? parsed.content.trimEnd() : parsed.content;
    const whole = hasCalls || parser.needsSpecialTokens ? thought + spoken : content.text;
    const shown = content.text.slice(0, content.shown);
    const finishReason = hasCalls && end.finishReason === 'stop' ? 'tool_calls' : end.finishReason;
    yield {
      index,
      reasoning,
      text: whole.startsWith(shown) ? whole.slice(shown.length) : '',
      tokens,
      end: { ...end, finishReason, toolCalls: parallel ? toolCalls : toolCalls.slice(0, 1) },
    };
  }
}

/** The thinking at the start, tags included: a call that is only thought about is not a call. */
function thoughtOf(text: string): string {
  const end = text.lastIndexOf('</think>');
  if (end >= 0) return text.slice(0, end + '</think>'.length);
  return /^\s*<think>/.test(text) ? text : '';
}

/** How much of the text can be shown before it is known whether a tool call follows. */
function certainLength(text: string, markers: readonly string[] | undefined): number {
  if (!markers?.length) return 0;
  const starts = markers.map((marker) => text.indexOf(marker)).filter((at) => at >= 0);
  const until = starts.length > 0 ? Math.min(...starts) : text.length - heldBack(text, markers);
  return text.slice(0, until).trimEnd().length; // The blank between content and call belongs to neither.
}

async function captureTurn(session: CaptureSession, request: ChatTurnRequest): Promise<ChatTurn> {
  if (request.n !== 1) throw unsupported('n', 'A recorded rollout takes one choice per call (n = 1).');
  const { messages, tools, toolChoice, given, signal } = request;
  const isForced = toolChoice !== 'auto' && toolChoice !== 'none';
  if (isForced && !session.canForceCalls) throw cannotForce();
  const turn = await session.chat({
    messages,
    tools: tools.length > 0 ? tools : undefined,
    sampling: given,
    signal,
    ...(isForced ? { toolChoice } : {}),
  });
  if (turn.finishReason === 'abort') throw abortError(signal);
  const tokens = Array.from(turn.tokenIds, (tokenId, at) => ({
    tokenId,
    logProb: turn.logProbs[at]!,
    weightVersion: turn.weightVersions?.[at] ?? 0,
  }));
  const end = {
    finishReason: turn.finishReason,
    stopReason: null,
    numTokens: tokens.length,
    numCachedTokens: turn.numCachedTokens ?? 0,
    toolCalls: turn.toolCalls.map(toToolCall),
  };
  async function* deltas(): AsyncGenerator<ChatDelta> {
    yield { index: 0, text: turn.text, reasoning: turn.reasoning, tokens, end };
  }
  return { id: turn.id, promptIds: Array.from(turn.promptIds), deltas: deltas() };
}

function toToolCall({ id, name, arguments: args }: ParsedTurn['calls'][number]): ToolCall {
  return {
    id: id ?? `call_${randomUUID().replaceAll('-', '')}`,
    name,
    arguments: typeof args === 'string' ? args : JSON.stringify(args),
  };
}
