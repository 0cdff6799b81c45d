import type { Engine, GenerationOutput, SamplingParams } from '../rollout/types.js';
import { IncrementalChatTemplate, TemplateCache } from './chat-template.js';
import { interaction as registeredInteraction } from './interactions/registry.js';
import type { Interaction } from './interactions/types.js';
import { matchesTemplate } from './sanity-check.js';
import { splitReasoning, toolCallId, toolParser } from './tools/parsers/index.js';
import type { MalformedToolCall, ParsedToolCall, ToolParser } from './tools/parsers/types.js';
import { Toolbox } from './tools/toolbox.js';
import { truncateToolResponse } from './tools/truncate.js';
import type { Tool } from './tools/types.js';
import { TrajectoryRecorder } from './trajectory.js';
import { turnNoise } from './turn-noise.js';
import {
  type AgentConfig,
  type AgentRow,
  type ChatMessage,
  type ChatTokenizer,
  type EndReason,
  type ToolCallRecord,
  type ToolSchema,
  withoutUndefined,
} from './types.js';

/** Ends a loop from inside: thrown when a limit is met, caught by the runner. Not an error. */
export class TrajectoryEnded extends Error {
  override readonly name = 'TrajectoryEnded';
  constructor(readonly reason: EndReason) {
    super(`the trajectory ended: ${reason}`);
  }
}

/** One turn of the model. */
export interface AssistantTurn {
  /** The whole text, without the end token. */
  text: string;
  /** The text without thinking and without tool calls. */
  content: string;
  toolCalls: ParsedToolCall[];
  malformed: MalformedToolCall[];
  tokenIds: number[];
  finishReason: GenerationOutput['finishReason'];
  stopReason: GenerationOutput['stopReason'];
}

export interface SessionOptions {
  engine: Engine;
  tokenizer: ChatTokenizer;
  config: AgentConfig;
  row: AgentRow;
  rowIndex: number;
  id: string;
  agentName: string;
  tools: readonly Tool[];
  /** Known to this batch besides the registered ones. */
  interactions?: readonly Interaction[];
  /** Shared by the sessions of a batch. */
  templateCache?: TemplateCache;
  signal: AbortSignal;
}

/**
 * What a loop holds in its hands: `generate`, `append`, `callTool`, `finish`. The session keeps the conversation and the
 * record, and stops a loop that goes past a limit by throwing `TrajectoryEnded` at its next step.
 */
export class Session {
  readonly row: AgentRow;
  readonly config: AgentConfig;
  readonly tokenizer: ChatTokenizer;
  readonly signal: AbortSignal;
  /** The conversation so far; a loop may change it until the first `generate`. */
  readonly messages: ChatMessage[];
  readonly recorder: TrajectoryRecorder;
  readonly toolbox: Toolbox;
  /** Offered to the chat template. A loop that describes its tools itself empties this before the first `generate`. */
  toolSchemas: readonly ToolSchema[];
  endReason: EndReason | undefined;
  private readonly engine: Engine;
  private readonly interactions: readonly Interaction[];
  private readonly parser: ToolParser;
  private readonly templateCache: TemplateCache;
  private template: IncrementalChatTemplate | undefined;
  /** `prompt`: nothing sampled yet; `model`: it spoke last; `text`: raw text came after it; `turn`: its turn is open. */
  private phase: 'prompt' | 'model' | 'text' | 'turn' = 'prompt';
  private turnIsClosed = false;
  private startedCalls = 0;
  private hasRawText = false;
  private turnWasCut = false;

  constructor(options: SessionOptions) {
    const { row, config, tools, id, rowIndex, agentName } = options;
    this.row = row;
    this.config = config;
    this.engine = options.engine;
    this.tokenizer = options.tokenizer;
    this.signal = options.signal;
    this.interactions = options.interactions ?? [];
    this.templateCache = options.templateCache ?? new TemplateCache();
    this.parser = toolParser(config.format);
    this.messages = row.prompt.map((message) => ({ ...message }));
    this.toolSchemas = tools.map((tool) => tool.schema);
    this.toolbox = new Toolbox(tools, id, row, config);
    this.recorder = new TrajectoryRecorder({
      id,
      rowIndex,
      sampleIndex: row.sampleIndex ?? rowIndex,
      agentName,
      ...(row.uid === undefined ? {} : { uid: row.uid }),
      ...(row.data_source === undefined ? {} : { dataSource: row.data_source }),
    });
  }

  /** Tokens that may still be added to the response. */
  get remainingLength(): number {
    const { promptIds, responseLength } = this.recorder;
    const inModel = this.engine.maxModelLength - promptIds.length - responseLength;
    return Math.min(this.config.responseLength - responseLength, inModel);
  }

  /** Lets the model take its turn. */
  async generate(sampling: SamplingParams = {}): Promise<AssistantTurn> {
    this.assertMayContinue();
    this.start();
    const wanted = { ...this.config.sampling, ...this.row.sampling, ...withoutUndefined(sampling) };
    const noise = sampling.seed === undefined ? turnNoise(wanted.seed, this.recorder.assistantTurns) : {};
    const maxTokens = Math.min(wanted.maxTokens ?? Number.POSITIVE_INFINITY, this.remainingLength);
    if (maxTokens <= 0) this.end('response_length');

    const started = performance.now();
    const output = await this.engine.submit({
      promptIds: this.recorder.contextIds(),
      sampling: { ...wanted, maxTokens, ...noise },
      sampleIndex: this.recorder.identity.sampleIndex,
      signal: this.signal,
    }).output;
    this.recorder.timing.generate_sequences += (performance.now() - started) / 1000;
    // A session that was closed while the engine worked has handed its record out already.
    if (this.endReason) throw new TrajectoryEnded(this.endReason);
    this.recorder.sampled(output.tokenIds, output.logProbs, output.weightVersions);
    if (output.finishReason === 'abort') this.end(abortReason(this.signal));
    return this.readTurn(output);
  }

  /**
   * Adds messages of the other side, as the chat template writes them, and opens the next assistant turn. When they do
   * not fit into the response they are not added and the trajectory ends.
   */
  append(messages: readonly ChatMessage[]): void {
    this.assertMayContinue();
    if (this.phase === 'prompt') {
      this.messages.push(...messages);
      return;
    }
    if (this.phase === 'turn')
      throw new Error('append() twice without generate() between: append all messages in one call');
    this.inject(this.template!.continuationIds(messages, { closed: this.turnIsClosed }));
    this.messages.push(...messages);
    this.phase = 'turn';
  }

  /** Adds text as it is inside the running assistant turn: observations of loops without chat turns (search, react). */
  appendText(text: string): void {
    this.appendTokens(Array.from(this.tokenizer.encode(text, { addSpecialTokens: false })), text);
  }

  appendTokens(tokenIds: number[], text: string): void {
    this.assertMayContinue();
    this.start();
    this.inject(tokenIds);
    this.extendAssistantMessage(text);
    this.turnIsClosed = false;
    this.hasRawText = true;
    this.phase = 'text';
  }

  /** Runs one tool call. The answer is always a text for the model; failures are recorded, not thrown. */
  async callTool(call: { id?: string; name: string; arguments: Record<string, unknown> }): Promise<ToolCallRecord> {
    this.assertMayContinue();
    const { maxToolCalls } = this.config;
    if (maxToolCalls !== null && this.startedCalls >= maxToolCalls) this.end('max_tool_calls');
    this.startedCalls++;
    const record = await this.toolbox.call(
      { ...call, id: call.id ?? toolCallId() },
      this.recorder.assistantTurns,
      this.signal,
    );
    if (this.endReason) throw new TrajectoryEnded(this.endReason);
    this.recordToolCall(record);
    if (this.signal.aborted) this.end(abortReason(this.signal));
    return record;
  }

  /** Tells the model that a call could not be read or was not run. */
  refuseCall(status: 'malformed' | 'ignored', reason: string, name = '', args: unknown = null): ToolCallRecord {
    const { maxToolResponseLength, toolResponseTruncateSide } = this.config;
    const response = truncateToolResponse(`Error: ${reason}`, maxToolResponseLength, toolResponseTruncateSide);
    const record: ToolCallRecord = {
      id: toolCallId(),
      name,
      arguments: args,
      status,
      turn: this.recorder.assistantTurns,
      response: response.text,
      truncated: response.truncated,
      reward: null,
      seconds: 0,
    };
    this.recordToolCall(record);
    return record;
  }

  /** The interaction of that name, the batch's own first. */
  interaction(name: string): Interaction {
    return this.interactions.find((candidate) => candidate.name === name) ?? registeredInteraction(name);
  }

  /** A reward for the turn that was just taken. */
  rewardTurn(channel: string, value: number): void {
    this.recorder.turnReward(channel, value);
  }

  /** A reward for the trajectory; the last value of a channel counts. */
  reward(channel: string, value: number): void {
    this.recorder.rewards[channel] = value;
  }

  /** Compares the record with the chat template, where the configuration asks for it and the loop used only chat turns. */
  checkTokenization(): void {
    const { config, recorder, tokenizer, messages, toolSchemas } = this;
    const { tokenizationSanityCheckMode: mode } = config;
    if (mode === 'disable' || this.hasRawText || recorder.assistantTurns < 2) return;
    const checked = { ...config, tokenizationSanityCheckMode: mode };
    const matches = matchesTemplate(recorder.contextIds(), messages, toolSchemas, tokenizer, checked);
    recorder.metrics.tokenization_mismatch = matches ? 0 : 1;
  }

  /** Ends the trajectory. The first reason is kept. */
  finish(reason: EndReason = 'stop'): void {
    this.endReason ??= reason === 'stop' && this.turnWasCut ? 'response_length' : reason;
  }

  /** Throws when the trajectory is over or a turn limit was met: checked before every step that goes on. */
  assertMayContinue(): void {
    if (this.endReason) throw new TrajectoryEnded(this.endReason);
    if (this.signal.aborted) this.end(abortReason(this.signal));
    const { assistantTurns, userTurns } = this.recorder;
    const { maxAssistantTurns, maxUserTurns } = this.config;
    if (assistantTurns > 0 && this.remainingLength <= 0) this.end('response_length');
    if (maxAssistantTurns !== null && assistantTurns >= maxAssistantTurns) this.end('max_assistant_turns');
    // A turn limit stands before the next step, not behind the last one: an answer that is final is not cut short by it.
    if (maxUserTurns !== null && userTurns >= maxUserTurns && this.phase === 'model') this.end('max_user_turns');
  }

  /** Cuts the tokens of the first prompt; only before the first `generate`. */
  start(options: { keepLastPromptTokens?: number } = {}): void {
    if (this.template) return;
    this.template = new IncrementalChatTemplate(
      this.tokenizer,
      this.messages.slice(),
      this.toolSchemas,
      this.config.applyChatTemplateKwargs,
      this.templateCache,
    );
    const promptIds = this.template.promptIds();
    const keep = options.keepLastPromptTokens ?? promptIds.length;
    if (promptIds.length > keep) this.recorder.metrics.prompt_truncated = 1;
    this.recorder.promptIds = promptIds.slice(Math.max(promptIds.length - keep, 0));
    const limit = Math.min(this.config.maxPromptLength, this.engine.maxModelLength - 1);
    if (this.recorder.promptIds.length > limit) this.end('prompt_length');
  }

  private inject(tokenIds: number[]): void {
    if (tokenIds.length >= this.remainingLength) this.end('observation_overflow');
    this.recorder.injected(tokenIds);
    this.recorder.userTurns++;
  }

  private readTurn(output: GenerationOutput): AssistantTurn {
    const { tokenIds, finishReason, stopReason } = output;
    const lastId = tokenIds.at(-1);
    const closed =
      finishReason === 'stop' &&
      typeof stopReason === 'number' &&
      lastId !== undefined &&
      this.tokenizer.decode([lastId], { skipSpecialTokens: true }) === '';
    const text = this.tokenizer.decode(closed ? tokenIds.slice(0, -1) : tokenIds, {
      skipSpecialTokens: !this.parser.needsSpecialTokens,
    });
    const parsed = this.parser.parse(splitReasoning(text).answer, this.toolSchemas);
    this.extendAssistantMessage(text);
    this.turnIsClosed = closed;
    this.turnWasCut = finishReason === 'length';
    this.phase = 'model';
    return {
      text,
      content: parsed.content,
      toolCalls: parsed.calls,
      malformed: parsed.malformed,
      tokenIds,
      finishReason,
      stopReason,
    };
  }

  /** A turn that goes on after injected text is still one assistant message. */
  private extendAssistantMessage(text: string): void {
    const last = this.messages.at(-1);
    if (last?.role === 'assistant' && this.phase !== 'turn') last.content = `${last.content}${text}`;
    else this.messages.push({ role: 'assistant', content: text });
  }

  private recordToolCall(record: ToolCallRecord): void {
    this.recorder.toolCalls.push(record);
    this.recorder.timing.tool_calls += record.seconds;
    if (record.reward !== null) this.rewardTurn(`tool/${record.name || 'malformed'}`, record.reward);
  }

  private end(reason: EndReason): never {
    this.endReason ??= reason;
    throw new TrajectoryEnded(this.endReason);
  }
}

/** The reason a signal was aborted with, when it is one of ours. */
export function abortReason(signal: AbortSignal): EndReason {
  return signal.reason instanceof TrajectoryEnded ? signal.reason.reason : 'abort';
}
