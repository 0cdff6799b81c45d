/** What the server needs from its neighbours, as small as it can be: a tokenizer, a tool-call parser, capture sessions. */
import type {
  ChatMessage,
  ChatTemplateOptions,
  IncrementalDetokenizer,
  ToolSchema,
} from '../../models/tokenizer/index.js';
import type { Engine, SamplingParams } from '../types.js';

export type { ChatMessage, ToolSchema } from '../../models/tokenizer/index.js';

/** The part of a tokenizer that the server uses. `Tokenizer` of `models/tokenizer` is one. */
export interface ServerTokenizer {
  encode(text: string, options?: { addSpecialTokens?: boolean }): ArrayLike<number>;
  decode(ids: ArrayLike<number>, options?: { skipSpecialTokens?: boolean }): string;
  detokenizer(options?: { skipSpecialTokens?: boolean }): Pick<IncrementalDetokenizer, 'push' | 'flush'>;
  encodeChat(messages: readonly ChatMessage[], options?: ChatTemplateOptions): ArrayLike<number>;
}

/** Finds the tool calls in what a model family writes. The parsers of `agents/tools/parsers` are ones. */
export interface ToolCallParser {
  parse(text: string, tools: readonly ToolSchema[]): ParsedTurn;
  /** Calls are marked by special tokens, so these must stay in the text that is parsed. */
  readonly needsSpecialTokens?: boolean;
  /** What a call begins with. Text before one is streamed at once; without any, text waits for the end. */
  readonly startMarkers?: readonly string[];
  /** What to put into the model's mouth so that it must call `name` (or some tool); allows `tool_choice` to force calls. */
  forcedPrefix?(name?: string): string;
}

export interface ParsedTurn {
  content: string;
  calls: { id?: string; name: string; arguments: Record<string, unknown> | string }[];
}

/** Model calls of a rollout, made through whoever records the trajectory: `CaptureSession` of `agents/capture`. */
export interface CaptureSession {
  chat(request: {
    messages: ChatMessage[];
    tools?: ToolSchema[];
    sampling: SamplingParams;
    signal?: AbortSignal;
    toolChoice?: 'required' | { name: string };
  }): Promise<CapturedTurn>;
  /** Whether `toolChoice` is possible with the model's way of writing calls. */
  readonly canForceCalls?: boolean;
}

export interface CapturedTurn {
  id: string;
  /** What the model said besides its tool calls. */
  text: string;
  /** What it thought before; clients get it as `reasoning_content`. */
  reasoning?: string;
  toolCalls: ParsedTurn['calls'];
  promptIds: ArrayLike<number>;
  tokenIds: ArrayLike<number>;
  logProbs: ArrayLike<number>;
  weightVersions?: ArrayLike<number>;
  finishReason: 'stop' | 'length' | 'tool_calls' | 'abort';
  numCachedTokens?: number;
}

/**
 * Says which rollout a request belongs to. `rolloutId` comes from a base URL `/r/{rolloutId}/v1`; without one the API key
 * may identify the rollout. Returning undefined for a `rolloutId` is a 404; for a key, it is an ordinary request.
 */
export type ResolveSession = (request: {
  rolloutId?: string;
  apiKey?: string;
}) => CaptureSession | undefined | Promise<CaptureSession | undefined>;

export interface ServerOptions {
  /** The name that clients ask for. */
  model: string;
  engine: Engine;
  tokenizer: ServerTokenizer;
  /** Without a parser, requests with tools are refused unless a session handles them. */
  toolCallParser?: ToolCallParser;
  resolveSession?: ResolveSession;
  /** Hand `<think>...</think>` over as `reasoning_content` instead of content, as recorded rollouts do. Default true. */
  separateThinking?: boolean;
  /** Clients must send it as `Authorization: Bearer`. */
  apiKey?: string;
  /** Largest request body. Default 16 MiB. */
  maxBodyBytes?: number;
  /** Most choices (`n` times prompts) of one request. Default 256. */
  maxChoices?: number;
  /** Generation of one request is ended with an error after this long. Default 30 minutes. */
  requestTimeoutMs?: number;
  vocabSize?: number;
  /** Offer vLLM's /sleep, /wake_up, /is_sleeping and /reset_prefix_cache. Off by default: any client could stop all. */
  control?: boolean;
  /** Told about errors that are the server's fault. Default: console.error. */
  onError?: (error: unknown) => void;
}
