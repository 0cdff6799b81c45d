import { z } from 'zod';
import type { AgentRow, ChatMessage } from '../types.js';
import type { Observation, Task, TaskResult } from './types.js';

/**
 * An environment behind an HTTP API, JSON both ways:
 *
 *     POST URL/start   { task, row }                    → { sid, messages? }
 *     POST URL/observe { sid, content, messages? }      → { messages? | content?, done?, reward?, metrics? }
 *     POST URL/end     { sid }                          → { reward?, metrics? }
 */
export interface HttpEnvironmentOptions {
  name: string;
  /** Else the row's `extra_info.environment_url`, else the environment variable. */
  url?: string;
  urlVariable?: string;
  /** Send the whole conversation with each turn, for stateless servers. */
  sendsMessages?: boolean;
}

interface EnvironmentState {
  url: string;
  sid: string;
}

const message = z.looseObject({ role: z.string(), content: z.string() });
const metrics = z.record(z.string(), z.number()).optional();
const startReply = z.object({
  sid: z.union([z.string(), z.number()]).transform(String),
  messages: z.array(message).optional(),
});
const observeReply = z.object({
  messages: z.array(message).optional(),
  content: z.string().optional(),
  done: z.boolean().optional(),
  reward: z.number().optional(),
  metrics,
});
const endReply = z.object({ reward: z.union([z.number(), z.record(z.string(), z.number())]).optional(), metrics });

/** A task whose world is a server: repositories to repair, terminals, games, chat partners. */
export function httpEnvironment({
  name,
  url,
  urlVariable,
  sendsMessages = false,
}: HttpEnvironmentOptions): Task<EnvironmentState> {
  const urlOf = (row: AgentRow): string => {
    const found = url ?? row.extra_info?.environment_url ?? (urlVariable ? process.env[urlVariable] : undefined);
    if (typeof found === 'string' && found !== '') return found.replace(/\/$/, '');
    throw new Error(
      `task ${name}: no environment URL; set extra_info.environment_url in the row${urlVariable ? ` or ${urlVariable}` : ''}`,
    );
  };
  return {
    name,
    async start(row, signal) {
      const base = urlOf(row);
      const reply = await post(`${base}/start`, { task: name, row }, startReply, signal);
      return {
        state: { url: base, sid: reply.sid },
        ...(reply.messages ? { messages: reply.messages as ChatMessage[] } : {}),
      };
    },
    async observe({ url: base, sid }, turn, messages, signal): Promise<Observation> {
      const body = { sid, content: turn.text, ...(sendsMessages ? { messages } : {}) };
      const { content, messages: replies, ...rest } = await post(`${base}/observe`, body, observeReply, signal);
      const shown =
        (replies as ChatMessage[] | undefined) ?? (content === undefined ? [] : [{ role: 'user', content }]);
      return { ...rest, messages: shown };
    },
    async end({ url: base, sid }, _messages, signal): Promise<TaskResult> {
      return await post(`${base}/end`, { sid }, endReply, signal);
    },
  };
}

/** Code and repository tasks: the environment applies what the model writes, runs the tests, reports. */
export const sweTask = httpEnvironment({ name: 'swedev', urlVariable: 'VERLET_SWEDEV_URL' });

/** A chat partner behind a server that gets the whole conversation each turn. */
export const genChatTask = httpEnvironment({
  name: 'gen_chat',
  urlVariable: 'VERLET_GEN_CHAT_URL',
  sendsMessages: true,
});

async function post<T>(url: string, body: unknown, schema: z.ZodType<T>, signal: AbortSignal): Promise<T> {
  let response: Response;
  try {
    response = await fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
      signal,
    });
  } catch (error) {
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause.message : String(error);
    throw new Error(`the environment at ${url} cannot be reached: ${cause}`, { cause: error });
  }
  const text = await response.text();
  if (!response.ok)
    throw new Error(`the environment at ${url} answered HTTP ${response.status}: ${text.slice(0, 300)}`);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new Error(`the environment at ${url} answered something that is not JSON: ${text.slice(0, 300)}`);
  }
  const parsed = schema.safeParse(value);
  if (!parsed.success)
    throw new Error(`the environment at ${url} answered in another shape: ${z.prettifyError(parsed.error)}`);
  return parsed.data;
}
