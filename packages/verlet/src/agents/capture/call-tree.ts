import { createHash } from 'node:crypto';
import { type ChatMessage, type Segment, type ToolSchema, textOf } from '../types.js';
import type { ChatResult } from './types.js';

/** One recorded call and its place in the tree: its parent is the call that it extends. */
export interface RecordedCall {
  id: string;
  agent: string;
  parent: RecordedCall | undefined;
  messages: readonly ChatMessage[];
  /** The whole prompt of a root; what was added after the parent's answer otherwise. */
  injectedIds: number[];
  result: ChatResult;
  /** The turn was ended by a sampled end token. */
  closed: boolean;
  /** From the engine's queue to the last token. */
  seconds: number;
  hasChildren: boolean;
}

/** Finds the recorded call that a conversation goes on from. */
export class CallTree {
  readonly calls: RecordedCall[] = [];
  private readonly byConversation = new Map<string, RecordedCall[]>();

  /** The call whose messages and answer are the longest prefix of `messages`, with the messages that are new. */
  findParent(
    messages: readonly ChatMessage[],
    tools: readonly ToolSchema[],
  ): { parent: RecordedCall; added: readonly ChatMessage[] } | undefined {
    const keys = conversationKeys(messages, tools);
    for (let length = messages.length - 1; length > 0; length--) {
      if (messages[length - 1]!.role !== 'assistant') continue;
      const candidates = this.byConversation.get(keys[length - 1]!);
      // Equal answers to equal questions: prefer the one nobody has gone on from.
      const parent = candidates?.find(({ hasChildren }) => !hasChildren) ?? candidates?.at(-1);
      if (parent) return { parent, added: messages.slice(length) };
    }
    return undefined;
  }

  add(call: RecordedCall, tools: readonly ToolSchema[]): void {
    this.calls.push(call);
    if (call.parent) call.parent.hasChildren = true;
    const answer: ChatMessage = {
      role: 'assistant',
      content: call.result.text,
      tool_calls: call.result.toolCalls.map(({ name, arguments: args }) => ({ function: { name, arguments: args } })),
    };
    const key = conversationKeys([...call.messages, answer], tools).at(-1)!;
    const known = this.byConversation.get(key);
    if (known) known.push(call);
    else this.byConversation.set(key, [call]);
  }

  /** Calls that nobody went on from, in the order they were made. */
  leaves(): RecordedCall[] {
    return this.calls.filter(({ hasChildren }) => !hasChildren);
  }
}

/** From the root to the call. */
export function pathTo(call: RecordedCall): RecordedCall[] {
  const path: RecordedCall[] = [];
  for (let node: RecordedCall | undefined = call; node; node = node.parent) path.unshift(node);
  return path;
}

/** The response part of a path. Calls in `trained` belong to an earlier trajectory and only give context here. */
export function segmentsOf(path: readonly RecordedCall[], trained: ReadonlySet<RecordedCall>): Segment[] {
  return path.flatMap((call, index): Segment[] => {
    const { tokenIds, logProbs, weightVersions } = call.result;
    const sampled: Segment = {
      kind: 'sampled',
      turn: index + 1,
      tokenIds,
      logProbs,
      weightVersions,
      ...(trained.has(call) ? { shared: true } : {}),
    };
    return index === 0 ? [sampled] : [{ kind: 'injected', turn: index, tokenIds: call.injectedIds }, sampled];
  });
}

/** One key per prefix of the conversation; equal keys mean equal tools and messages that say the same. */
function conversationKeys(messages: readonly ChatMessage[], tools: readonly ToolSchema[]): string[] {
  let key = hash(stableJson(tools));
  return messages.map((message) => {
    key = hash(`${key}\n${stableJson(essence(message))}`);
    return key;
  });
}

/** What a client may not change without making it another message. Ids, thinking and the spelling of JSON may differ. */
function essence({ role, content, tool_calls }: ChatMessage): unknown {
  const text = textOf(content);
  if (role !== 'assistant') return [role, text];
  const calls = (tool_calls ?? []).map(({ function: { name, arguments: args } }) => [name, parsedArguments(args)]);
  return [role, text.trim(), calls];
}

function parsedArguments(args: Record<string, unknown> | string): unknown {
  if (typeof args !== 'string') return args;
  try {
    return JSON.parse(args);
  } catch {
    return args;
  }
}

function stableJson(value: unknown): string {
  return JSON.stringify(value, (_, entry: unknown) =>
    typeof entry === 'object' && entry !== null && !Array.isArray(entry)
      ? Object.fromEntries(Object.entries(entry).sort(([a], [b]) => (a < b ? -1 : 1)))
      : entry,
  );
}

function hash(text: string): string {
  return createHash('sha256').update(text).digest('base64');
}
