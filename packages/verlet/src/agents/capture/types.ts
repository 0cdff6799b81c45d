import type { SamplingParams, TokenEvent } from '../../rollout/types.js';
import type { ChatMessage, ToolSchema } from '../types.js';

/** One call of a program to the policy, in OpenAI's words. */
export interface ChatCall {
  messages: readonly ChatMessage[];
  tools?: readonly ToolSchema[];
  sampling?: SamplingParams;
  signal?: AbortSignal;
  /** The answer must call some tool, or this one: its beginning is written for the model, and masked out. */
  toolChoice?: 'required' | { name: string };
  /** Which (sub-)agent of the program asks; the name of the surrounding `withAgentName` when absent. */
  agent?: string;
}

export interface CapturedToolCall {
  id: string;
  name: string;
  /** As an object; OpenAI's wire format carries it as a JSON string. */
  arguments: Record<string, unknown>;
}

export interface ChatResult {
  /** Unique per call. */
  id: string;
  /** The answer without thinking and tool calls; the raw answer when a tool call in it could not be read. */
  text: string;
  reasoning: string;
  toolCalls: CapturedToolCall[];
  promptIds: number[];
  tokenIds: number[];
  logProbs: number[];
  weightVersions: number[];
  finishReason: 'stop' | 'length' | 'tool_calls' | 'abort';
  /** How many of the prompt's ids came from a recorded call instead of the tokenizer. */
  numReusedTokens: number;
  numCachedTokens: number;
}

/** A call in progress: iterate over `tokens` to stream, await `result` for the whole. */
export interface RunningChat {
  id: string;
  promptIds: number[];
  tokens: AsyncIterable<TokenEvent>;
  result: Promise<ChatResult>;
}

/** The conversation does not fit; servers answer it with 400 and this code, which agents know. */
export class ContextOverflowError extends Error {
  override readonly name = 'ContextOverflowError';
  readonly code = 'context_length_exceeded';
}

/** A call came after the program's end, or after its time; servers answer it with 410 and this code. */
export class RolloutOverError extends Error {
  override readonly name = 'RolloutOverError';
  readonly status = 410;
  readonly code = 'rollout_over';
  constructor(id: string) {
    super(`the rollout ${id} is over: calls after the program's end are not recorded`);
  }
}
