/** The words of agent rollouts: rows in, trajectories out, and what a loop needs from a tokenizer. */
import type { ChatMessage, ChatTemplateOptions, ToolSchema } from '../models/tokenizer/types.js';
import type { SamplingParams } from '../rollout/types.js';

export type { ChatMessage, ContentPart, ToolCall, ToolSchema } from '../models/tokenizer/types.js';

/** The part of a tokenizer that agents use. `Tokenizer` of `models/tokenizer` is one. */
export interface ChatTokenizer {
  /** Without added special tokens unless asked for: templates write their own. */
  encode(text: string, options?: { addSpecialTokens?: boolean }): ArrayLike<number>;
  decode(ids: ArrayLike<number>, options?: { skipSpecialTokens?: boolean }): string;
  /** The conversation as text. */
  applyChatTemplate(messages: readonly ChatMessage[], options: ChatTemplateOptions): string;
}

/** One row of a dataset, with verl's column names. Columns that are not listed are carried along untouched. */
export interface AgentRow {
  prompt: ChatMessage[];
  data_source?: string;
  /** Picks the loop; `AgentConfig.defaultAgentLoop` when absent. */
  agent_name?: string;
  reward_model?: { style?: string; ground_truth?: unknown; [field: string]: unknown };
  extra_info?: Record<string, unknown>;
  /** Per tool: `create_kwargs`, `execute_kwargs`, `calc_reward_kwargs`, `release_kwargs`. */
  tools_kwargs?: Record<string, ToolKwargs>;
  /** `name` picks the interaction; everything else is given to its `start`. */
  interaction_kwargs?: { name?: string; [field: string]: unknown };
  /** Rows sampled from one prompt share it. */
  uid?: string;
  /** Part of the noise key; the position in the batch when absent. */
  sampleIndex?: number;
  /** Overrides the batch's sampling parameters for this row. */
  sampling?: SamplingParams;
  [column: string]: unknown;
}

export interface ToolKwargs {
  create_kwargs?: Record<string, unknown>;
  execute_kwargs?: Record<string, unknown>;
  calc_reward_kwargs?: Record<string, unknown>;
  release_kwargs?: Record<string, unknown>;
}

/**
 * Why a trajectory ended.
 * - `stop`: the loop had nothing more to do (no tool call, the task said so)
 * - `answer`: the model gave its final answer (search, react)
 * - `response_length`: the response is as long as it may be
 * - `observation_overflow`: what came back from a tool or a user did not fit; it was not appended
 * - `prompt_length`: the prompt alone is too long; nothing was sampled
 * - `max_assistant_turns`, `max_user_turns`, `max_tool_calls`, `max_turns`: that limit was met
 * - `interaction_terminated`, `environment_done`: the other side ended it
 * - `timeout`: wall time ran out; `abort`: the caller or an engine shutdown ended it
 * - `error`: the loop threw; `Trajectory.error` holds the message
 */
export type EndReason =
  | 'stop'
  | 'answer'
  | 'response_length'
  | 'observation_overflow'
  | 'prompt_length'
  | 'max_assistant_turns'
  | 'max_user_turns'
  | 'max_tool_calls'
  | 'max_turns'
  | 'interaction_terminated'
  | 'environment_done'
  | 'timeout'
  | 'abort'
  | 'error';

/** A run of tokens from one source. Log-probs and weight versions exist for sampled tokens only. */
export type Segment =
  | {
      kind: 'sampled';
      turn: number;
      tokenIds: number[];
      logProbs: number[];
      weightVersions: number[];
      /** Sampled earlier and trained in another trajectory of the same tree: present as context, masked out. */
      shared?: boolean;
    }
  | { kind: 'injected'; turn: number; tokenIds: number[] };

/**
 * How a tool call went. `malformed`: no call could be read; `ignored`: beyond the calls allowed per turn;
 * `unavailable`: the server behind the tool is dead.
 */
export type ToolCallStatus =
  | 'ok'
  | 'error'
  | 'timeout'
  | 'unknown_tool'
  | 'invalid_arguments'
  | 'malformed'
  | 'ignored'
  | 'unavailable';

export interface ToolCallRecord {
  id: string;
  /** Empty when the call was malformed. */
  name: string;
  arguments: unknown;
  status: ToolCallStatus;
  /** The assistant turn that made the call, from 1. */
  turn: number;
  /** What the model was shown, after truncation. */
  response: string;
  truncated: boolean;
  reward: number | null;
  seconds: number;
  metrics?: Record<string, number>;
}

/** A reward for one turn, in a named channel, placed on the last sampled token before it was given. */
export interface TurnReward {
  channel: string;
  turn: number;
  value: number;
  /** Index into the response; -1 when nothing had been sampled yet. */
  tokenIndex: number;
}

/** Everything that happened in one rollout, as it happened. */
export interface Trajectory {
  id: string;
  /** Index of the row in the batch. */
  rowIndex: number;
  sampleIndex: number;
  uid?: string;
  agentName: string;
  dataSource?: string;
  promptIds: number[];
  segments: Segment[];
  /** The segments joined. */
  responseIds: number[];
  /** 1: sampled by the policy here; 0: injected (or sampled and trained elsewhere). */
  responseMask: number[];
  /** 0 where the mask is 0. */
  rolloutLogProbs: number[];
  /** -1 for injected tokens. */
  weightVersions: number[];
  messages: ChatMessage[];
  assistantTurns: number;
  /** Turns of the other side: user messages, tool responses, observations. */
  userTurns: number;
  /** verl's count: user turns + assistant turns + 1. */
  numTurns: number;
  toolCalls: ToolCallRecord[];
  turnRewards: TurnReward[];
  /** Trajectory-level rewards by channel. */
  rewards: Record<string, number>;
  /** Sum over the trajectory-level channels, null when nobody scored it. */
  rewardScore: number | null;
  endReason: EndReason;
  /** What went wrong, when `endReason` is `error`. */
  error?: string;
  /** Why there is no reward although a reward function was given. */
  rewardError?: string;
  /** Seconds by verl's names. */
  timing: { generate_sequences: number; tool_calls: number; compute_score: number };
  /** Numbers a loop reports; averaged over the batch under the loop's or task's name. */
  metrics: Record<string, number>;
  extraFields: Record<string, unknown>;
}

export type TruncateSide = 'left' | 'right' | 'middle';

/** Limits and choices of a rollout. Lengths of prompts and responses count tokens, of tool responses characters. */
export interface AgentConfig {
  defaultAgentLoop: string;
  sampling: SamplingParams;
  maxPromptLength: number;
  responseLength: number;
  maxAssistantTurns: number | null;
  maxUserTurns: number | null;
  /** Calls executed in a whole trajectory. */
  maxToolCalls: number | null;
  /** Calls executed per assistant turn; the model is told about those that were not. */
  maxParallelCalls: number;
  maxToolResponseLength: number;
  toolResponseTruncateSide: TruncateSide;
  /** Tool-call parser. */
  format: string;
  toolTimeoutSeconds: number;
  trajectoryTimeoutSeconds: number;
  rewardTimeoutSeconds: number;
  maxConcurrentTrajectories: number;
  /**
   * Whose temperature, top-p, top-k, min-p and penalties count when a program sets its own: its own, or the rollout's, because
   * the policy gradient wants samples of the policy. Token limits and stop strings are the program's in both cases.
   */
  programSampling: 'program' | 'rollout';
  /** Given to the chat template, for example `{ enable_thinking: false }`. */
  applyChatTemplateKwargs: Record<string, unknown>;
  /** Count trajectories of several turns whose tokens differ from the template of the whole conversation. */
  tokenizationSanityCheckMode: 'strict' | 'ignore_strippable' | 'disable';
  search: SearchConfig;
}

/** Search-R1's settings, under its names. */
export interface SearchConfig {
  url: string;
  topk: number;
  maxTurns: number;
  /** Tokens of the first prompt that are kept, from its end; null keeps `maxPromptLength`. */
  maxStartLength: number | null;
  /** Tokens of one search result; null does not cut. */
  maxObsLength: number | null;
  /** Tokens per turn; the whole response is bounded by `responseLength`. */
  maxTurnLength: number | null;
  timeoutSeconds: number;
}

export const defaultAgentConfig: AgentConfig = {
  defaultAgentLoop: 'single_turn_agent',
  sampling: {},
  maxPromptLength: 512,
  responseLength: 512,
  maxAssistantTurns: null,
  maxUserTurns: null,
  maxToolCalls: null,
  maxParallelCalls: 1,
  maxToolResponseLength: 256,
  toolResponseTruncateSide: 'middle',
  format: 'hermes',
  toolTimeoutSeconds: 30,
  trajectoryTimeoutSeconds: 600,
  rewardTimeoutSeconds: 60,
  maxConcurrentTrajectories: 1024,
  programSampling: 'program',
  applyChatTemplateKwargs: {},
  tokenizationSanityCheckMode: 'disable',
  search: {
    url: 'http://127.0.0.1:8000/retrieve',
    topk: 3,
    maxTurns: 10,
    maxStartLength: null,
    maxObsLength: null,
    maxTurnLength: null,
    timeoutSeconds: 30,
  },
};

/** A partial configuration, one level deep into `search`. */
export type AgentConfigInput = Partial<Omit<AgentConfig, 'search'>> & { search?: Partial<SearchConfig> };

export function resolveAgentConfig(input: AgentConfigInput = {}): AgentConfig {
  return {
    ...defaultAgentConfig,
    ...withoutUndefined(input),
    search: { ...defaultAgentConfig.search, ...withoutUndefined(input.search ?? {}) },
  };
}

/** So that a key that was left undefined does not hide a default. */
export function withoutUndefined<T extends object>(value: T): T {
  return Object.fromEntries(Object.entries(value).filter(([, entry]) => entry !== undefined)) as T;
}

/** What is left of a message when only its text counts. */
export function textOf(content: ChatMessage['content']): string {
  if (typeof content === 'string') return content;
  if (!content) return '';
  return content.map((part) => (part.type === 'text' ? String(part.text) : '')).join('');
}

export type { ChatTemplateOptions };
