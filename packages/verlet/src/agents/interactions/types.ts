import type { AgentRow, ChatMessage } from '../types.js';

export interface InteractionResponse {
  /** The interaction is over; `text` is not shown to the model any more. */
  terminate: boolean;
  text: string;
  /** Reward of this turn, channel `interaction/NAME`. */
  score: number;
  metrics?: Record<string, number>;
}

/** The other side of a conversation, as a program. `Instance` is what it remembers of one trajectory. */
export interface Interaction<Instance = unknown> {
  readonly name: string;
  /** Given the row's `interaction_kwargs` (without the name) and the row itself. */
  start(kwargs: { row: AgentRow; [key: string]: unknown }): Promise<Instance> | Instance;
  generateResponse(
    instance: Instance,
    messages: readonly ChatMessage[],
  ): Promise<InteractionResponse> | InteractionResponse;
  finalize?(instance: Instance): Promise<void> | void;
}
