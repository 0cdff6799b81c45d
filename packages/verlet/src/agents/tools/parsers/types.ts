import type { ToolSchema } from '../../types.js';

export interface ParsedToolCall {
  /** Made up when the format has none. */
  id: string;
  name: string;
  arguments: Record<string, unknown>;
}

/** Something that was meant as a call and could not be read. */
export interface MalformedToolCall {
  raw: string;
  reason: string;
}

export interface ParsedTurn {
  /** The text without the calls. */
  content: string;
  calls: ParsedToolCall[];
  malformed: MalformedToolCall[];
}

/** Finds tool calls in what a model family writes. Pure: text and schemas in, calls out. */
export interface ToolParser {
  readonly name: string;
  /** The format is made of special tokens, so the text must be decoded with them. */
  readonly needsSpecialTokens?: boolean;
  parse(text: string, tools: readonly ToolSchema[]): ParsedTurn;
}
