import type { AssistantTurn } from '../session.js';
import type { AgentRow, ChatMessage } from '../types.js';

/** What a task has to say about a turn of the model. */
export interface Observation {
  /** Shown to the model; without messages and without `done` the task ends as well. */
  messages?: ChatMessage[];
  done?: boolean;
  /** Turn-level reward, channel `task/NAME`. */
  reward?: number;
  metrics?: Record<string, number>;
}

export interface TaskResult {
  /** Trajectory-level reward: a number, or channels. */
  reward?: number | Record<string, number>;
  metrics?: Record<string, number>;
}

/** A kind of work with its own start, observations and end. `State` is what it remembers of one trajectory. */
export interface Task<State = unknown> {
  readonly name: string;
  /** May add to or replace the row's prompt. */
  start(
    row: AgentRow,
    signal: AbortSignal,
  ): Promise<{ state: State; messages?: ChatMessage[] }> | { state: State; messages?: ChatMessage[] };
  observe(
    state: State,
    turn: AssistantTurn,
    messages: readonly ChatMessage[],
    signal: AbortSignal,
  ): Promise<Observation> | Observation;
  /** Always called once when `start` succeeded, whatever ended the trajectory. */
  end?(state: State, messages: readonly ChatMessage[], signal: AbortSignal): Promise<TaskResult> | TaskResult;
}
