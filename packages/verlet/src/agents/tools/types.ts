import type { AgentRow, ToolSchema } from '../types.js';

/** What a tool knows about the rollout that calls it. One object per tool and trajectory. */
export interface ToolContext {
  /** Unique per trajectory: key for whatever the tool keeps between calls. */
  instanceId: string;
  row: AgentRow;
  /** Fires when the call's or the trajectory's time is up. */
  signal: AbortSignal;
  /** `create_kwargs` in `create`, `execute_kwargs` in `execute` and so on, from the row's `tools_kwargs`. */
  kwargs: Record<string, unknown>;
  /** What `create` returned. */
  state: unknown;
}

export interface ToolOutput {
  text: string;
  /** Joins the turn-level reward, channel `tool/NAME`. */
  reward?: number;
  metrics?: Record<string, number>;
}

/** Arguments after the schema has seen them, or why it refused them. */
export type CheckedArguments = { ok: true; value: unknown } | { ok: false; issues: string[] };

/**
 * A tool the model can call. Life cycle per trajectory: `create` before the first call, `execute` per call,
 * `reward` once at the end, `release` always.
 */
export interface Tool {
  readonly name: string;
  readonly schema: ToolSchema;
  /** Instead of `toolTimeoutSeconds`. */
  readonly timeoutSeconds?: number;
  check?(input: unknown): Promise<CheckedArguments> | CheckedArguments;
  create?(context: ToolContext): Promise<unknown> | unknown;
  execute(input: unknown, context: ToolContext): Promise<unknown> | unknown;
  /** A last reward for the whole use of the tool (verl's `calc_reward`). */
  reward?(context: ToolContext): Promise<number> | number;
  release?(context: ToolContext): Promise<void> | void;
}

/** Thrown by a tool whose server is gone, as opposed to a call that went wrong. */
export class ToolUnavailableError extends Error {
  override readonly name = 'ToolUnavailableError';
}
