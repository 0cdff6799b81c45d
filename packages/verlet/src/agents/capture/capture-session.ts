import { createHash, randomUUID } from 'node:crypto';
import { withCallHints } from '../../rollout/server/call-hints.js';
import type { Engine, Generation, GenerationOutput } from '../../rollout/types.js';
import { IncrementalChatTemplate, TemplateCache } from '../chat-template.js';
import { splitReasoning, type ToolParser, toolParser } from '../tools/parsers/index.js';
import { flattenSegments, type TrajectoryIdentity, TrajectoryRecorder } from '../trajectory.js';
import { mixedSeed } from '../turn-noise.js';
import {
  type AgentConfig,
  type AgentConfigInput,
  type ChatMessage,
  type ChatTokenizer,
  resolveAgentConfig,
  type ToolSchema,
  type Trajectory,
} from '../types.js';
import { CallTree, pathTo, type RecordedCall, segmentsOf } from './call-tree.js';
import { currentAgentName } from './context.js';
import { ownSampling } from './own-sampling.js';
import { overflow, type Place, withForcedCall } from './place.js';
import { type ChatCall, type ChatResult, RolloutOverError, type RunningChat } from './types.js';

export interface CaptureSessionOptions {
  engine: Engine;
  tokenizer: ChatTokenizer;
  config?: AgentConfigInput;
  /** Who the trajectories belong to. */
  identity?: Partial<TrajectoryIdentity>;
  /** Awaited before every call: lets a weight update pass. Must give up when the signal fires: nobody waits any more. */
  gate?: (signal?: AbortSignal) => Promise<void>;
  templateCache?: TemplateCache;
}

/**
 * Records what one run of somebody else's program asks the policy. A call that extends an earlier one goes on from that
 * call's token ids and joins its trajectory; a conversation that was edited or compacted starts a new one.
 */
export class CaptureSession {
  readonly id: string;
  readonly config: AgentConfig;
  private readonly tree = new CallTree();
  private readonly identity: TrajectoryIdentity;
  private readonly templates = new Map<RecordedCall, IncrementalChatTemplate>();
  private readonly templateCache: TemplateCache;
  private readonly parser: ToolParser;
  private readonly forcedPrefix: ((name?: string) => string) | undefined;
  private readonly timesAsked = new Map<string, number>();
  private numAborted = 0;
  private numOverruled = 0;
  private isFinished = false;

  constructor(private readonly options: CaptureSessionOptions) {
    this.config = resolveAgentConfig(options.config);
    this.identity = { id: randomUUID(), rowIndex: 0, sampleIndex: 0, agentName: 'program', ...options.identity };
    this.templateCache = options.templateCache ?? new TemplateCache();
    this.id = this.identity.id;
    this.parser = toolParser(this.config.format);
    this.forcedPrefix = withCallHints(this.parser).forcedPrefix;
  }

  async chat(call: ChatCall): Promise<ChatResult> {
    return await (await this.begin(call)).result;
  }

  /** Starts a call and gives access to its tokens while they are sampled. */
  async begin(call: ChatCall): Promise<RunningChat> {
    this.assertOpen();
    await this.options.gate?.(call.signal);
    // The program may have ended, or run out of time, while its call was held.
    this.assertOpen();
    const tools = call.tools ?? [];
    const place = withForcedCall(this.placeOf(call.messages, tools), this.forcedText(call), this.options.tokenizer);
    const { own, isOverruled } = ownSampling(call.sampling, this.config);
    if (isOverruled) this.numOverruled++;
    const sampling = { ...this.config.sampling, ...own };
    const maxTokens = Math.min(sampling.maxTokens ?? Number.POSITIVE_INFINITY, place.room);
    const generation = this.options.engine.submit({
      promptIds: place.promptIds,
      sampling: { ...sampling, maxTokens, ...this.noiseFor(call, place.promptIds, place.parent !== undefined) },
      sampleIndex: this.identity.sampleIndex,
      ...(call.signal ? { signal: call.signal } : {}),
    });
    const id = `chatcmpl-${randomUUID()}`;
    const agent = call.agent ?? currentAgentName() ?? this.identity.agentName;
    const result = this.record(id, agent, call.messages, tools, place, generation);
    // Whoever streams may never look at the result.
    result.catch(() => {});
    return { id, promptIds: place.promptIds, tokens: generation, result };
  }

  get canForceCalls(): boolean {
    return this.forcedPrefix !== undefined;
  }

  /** Calls are forced by beginning one on the model's behalf: what it then writes can only complete it. */
  private forcedText({ toolChoice, tools }: ChatCall): string {
    if (!toolChoice || !tools?.length) return '';
    if (!this.forcedPrefix)
      throw new RangeError(`calls in the format ${this.config.format} cannot be forced; leave toolChoice out`);
    return this.forcedPrefix(toolChoice === 'required' ? undefined : toolChoice.name);
  }

  private assertOpen(): void {
    if (this.isFinished) throw new RolloutOverError(this.id);
  }

  get calls(): readonly RecordedCall[] {
    return this.tree.calls;
  }

  /**
   * The recorded trajectories: one per conversation that nothing went on from. Tokens that two of them share are
   * trained in the first and masked in the others.
   */
  finish(rewards: Record<string, number> = {}): Trajectory[] {
    this.isFinished = true;
    const trained = new Set<RecordedCall>();
    const leaves = this.tree.leaves();
    return leaves.map((leaf, index) => {
      const path = pathTo(leaf);
      const segments = segmentsOf(path, trained);
      for (const call of path) trained.add(call);
      return this.trajectoryOf(path, segments, rewards, index, leaves.length);
    });
  }

  /** The record of a program that never asked: the prompt it was given, and no response. */
  silentTrajectory(messages: readonly ChatMessage[]): Trajectory {
    const recorder = new TrajectoryRecorder(this.identity);
    const { applyChatTemplateKwargs, maxPromptLength } = this.config;
    try {
      const { tokenizer } = this.options;
      const template = new IncrementalChatTemplate(
        tokenizer,
        messages,
        [],
        applyChatTemplateKwargs,
        this.templateCache,
      );
      recorder.promptIds = template.promptIds().slice(-maxPromptLength);
    } catch {
      // A prompt that is no conversation is the program's own affair; there is nothing to show then.
    }
    return recorder.build([...messages], 'stop');
  }

  /**
   * Noise is a function of seed, sample and position in the output. A program that asks the same thing twice would be told the
   * same thing twice, and a conversation that goes on would go on with the noise it began with: every repetition and every
   * continuation gets a seed of its own, unless the program has chosen one. It depends on what is asked, not on the order.
   */
  private noiseFor(call: ChatCall, promptIds: readonly number[], isContinued: boolean): { seed?: number } {
    const digest = createHash('sha256').update(Int32Array.from(promptIds)).digest();
    const key = digest.toString('base64');
    const repetition = this.timesAsked.get(key) ?? 0;
    this.timesAsked.set(key, repetition + 1);
    if (call.sampling?.seed !== undefined || (repetition === 0 && !isContinued)) return {};
    const asked = isContinued ? digest.readUIntLE(0, 5) : 0;
    return { seed: mixedSeed(this.config.sampling.seed ?? 0, asked + repetition * 1_000_003) };
  }

  private placeOf(messages: readonly ChatMessage[], tools: readonly ToolSchema[]): Place {
    const { engine, tokenizer } = this.options;
    const found = this.tree.findParent(messages, tools);
    if (!found) {
      const template = new IncrementalChatTemplate(
        tokenizer,
        messages,
        tools,
        this.config.applyChatTemplateKwargs,
        this.templateCache,
      );
      const promptIds = template.promptIds();
      const limit = Math.min(this.config.maxPromptLength, engine.maxModelLength - 1);
      if (promptIds.length > limit)
        throw overflow(
          `the prompt has ${promptIds.length} tokens (system message and tools included), the limit is ${limit}; ` +
            'raise data.max_prompt_length',
        );
      const room = Math.min(this.config.responseLength, engine.maxModelLength - promptIds.length);
      return { parent: undefined, template, injectedIds: promptIds, promptIds, reused: 0, room, forced: '' };
    }
    const { parent, added } = found;
    const root = pathTo(parent)[0]!;
    const template = this.templates.get(root)!;
    const injectedIds = template.continuationIds(added, { closed: parent.closed });
    const before = [...parent.result.promptIds, ...parent.result.tokenIds];
    const promptIds = [...before, ...injectedIds];
    const response = promptIds.length - root.result.promptIds.length;
    const room = Math.min(this.config.responseLength - response, engine.maxModelLength - promptIds.length);
    if (room <= 0) {
      throw overflow(
        `${promptIds.length} tokens so far, ${response} of them after the first prompt, where answers and tool results ` +
          `together may have ${this.config.responseLength}; raise data.max_response_length, or shorten what tools return`,
      );
    }
    return { parent, template, injectedIds, promptIds, reused: before.length, room, forced: '' };
  }

  private async record(
    id: string,
    agent: string,
    messages: readonly ChatMessage[],
    tools: readonly ToolSchema[],
    place: Place,
    generation: Generation,
  ): Promise<ChatResult> {
    const started = performance.now();
    const output = await generation.output;
    const seconds = (performance.now() - started) / 1000;
    const { result, closed } = this.read(id, output, place, tools);
    if (result.finishReason === 'abort') {
      // Nobody saw the answer, so nothing can go on from it.
      this.numAborted++;
      return result;
    }
    if (this.isFinished) return result;
    const call: RecordedCall = {
      id,
      agent,
      parent: place.parent,
      messages,
      injectedIds: place.injectedIds,
      result,
      closed,
      seconds,
      hasChildren: false,
    };
    this.tree.add(call, tools);
    if (!place.parent) this.templates.set(call, place.template);
    return result;
  }

  private read(
    id: string,
    output: GenerationOutput,
    { promptIds, reused, forced }: Place,
    tools: readonly ToolSchema[],
  ) {
    const { parser } = this;
    const { tokenizer } = this.options;
    const { tokenIds, logProbs, weightVersions, numCachedTokens } = output;
    const lastId = tokenIds.at(-1);
    const closed =
      output.finishReason === 'stop' &&
      typeof output.stopReason === 'number' &&
      lastId !== undefined &&
      tokenizer.decode([lastId], { skipSpecialTokens: true }) === '';
    const raw = tokenizer.decode(closed ? tokenIds.slice(0, -1) : tokenIds, {
      skipSpecialTokens: !parser.needsSpecialTokens,
    });
    const { reasoning, answer } = splitReasoning(forced + raw);
    const parsed = tools.length > 0 ? parser.parse(answer, tools) : { content: answer, calls: [], malformed: [] };
    const isUnreadable = parsed.malformed.length > 0 && parsed.calls.length === 0;
    const finishReason =
      output.finishReason === 'stop' && parsed.calls.length > 0 ? ('tool_calls' as const) : output.finishReason;
    const result: ChatResult = {
      id,
      text: isUnreadable ? answer : parsed.content,
      reasoning,
      toolCalls: parsed.calls,
      promptIds,
      tokenIds,
      logProbs,
      weightVersions,
      finishReason,
      numReusedTokens: reused,
      numCachedTokens,
    };
    return { result, closed };
  }

  private trajectoryOf(
    path: readonly RecordedCall[],
    segments: Trajectory['segments'],
    rewards: Record<string, number>,
    index: number,
    count: number,
  ): Trajectory {
    const last = path.at(-1)!;
    const values = Object.values(rewards);
    return {
      ...this.identity,
      id: count === 1 ? this.identity.id : `${this.identity.id}/${index}`,
      agentName: last.agent,
      promptIds: path[0]!.result.promptIds,
      segments,
      ...flattenSegments(segments),
      messages: [...last.messages, { role: 'assistant', content: last.result.text }],
      assistantTurns: path.length,
      userTurns: path.length - 1,
      numTurns: path.length * 2,
      toolCalls: [],
      turnRewards: [],
      rewards: { ...rewards },
      rewardScore: values.length === 0 ? null : values.reduce((sum, value) => sum + value, 0),
      endReason: last.result.finishReason === 'length' ? 'response_length' : 'stop',
      timing: { generate_sequences: sumOf(path, ({ seconds }) => seconds), tool_calls: 0, compute_score: 0 },
      metrics: {
        calls: path.length,
        tool_calls: sumOf(path, ({ result }) => result.toolCalls.length),
        reused_tokens: sumOf(path, ({ result }) => result.numReusedTokens),
        aborted_calls: this.numAborted,
        overruled_calls: this.numOverruled,
      },
      extraFields: { rollout_id: this.identity.id, trajectory_index: index, trajectory_count: count },
    };
  }
}

function sumOf(path: readonly RecordedCall[], numberOf: (call: RecordedCall) => number): number {
  return path.reduce((sum, call) => sum + numberOf(call), 0);
}
