/** The words of chat: what a template is given and what a conversation row holds. */

export interface ToolCall {
  id?: string;
  type?: 'function';
  /** `arguments` may be an object or a JSON string; templates decide how they print it. */
  function: { name: string; arguments: Record<string, unknown> | string };
}

export interface ChatMessage {
  role: string;
  content: string | ContentPart[] | null;
  name?: string;
  reasoning_content?: string;
  tool_calls?: ToolCall[];
  tool_call_id?: string;
  [field: string]: unknown;
}

export type ContentPart = { type: 'text'; text: string } | { type: string; [field: string]: unknown };

/** An OpenAI-style function schema, passed to templates as it is. */
export interface ToolSchema {
  type: 'function';
  function: { name: string; description?: string; parameters?: Record<string, unknown>; [field: string]: unknown };
}

export interface ChatTemplateOptions {
  tools?: readonly (ToolSchema | Record<string, unknown>)[] | null;
  documents?: readonly Record<string, unknown>[] | null;
  /** Append the opening of an assistant turn. */
  addGenerationPrompt?: boolean;
  /** Leave the last message open, so that generation goes on from its text. */
  continueFinalMessage?: boolean;
  /** Instead of the model's own template. */
  chatTemplate?: string;
  /** Anything else the template reads, for example `{ enable_thinking: false }`. */
  kwargs?: Record<string, unknown>;
  /** What `strftime_now` answers with; the clock when absent. */
  now?: Date;
}
