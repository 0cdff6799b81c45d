/**
 * What the server must know of a tool-call format beyond parsing it: where a call begins, so that text before it can be
 * streamed at once, and how to begin one, so that `tool_choice` can force it. Formats not listed work, with their text
 * arriving at the end and with `tool_choice` limited to `auto` and `none`.
 */
import type { ToolCallParser } from './types.js';

type Hints = Required<Pick<ToolCallParser, 'startMarkers' | 'forcedPrefix'>>;

const functionTag = (outer: string): Hints => ({
  startMarkers: [`<${outer}>`],
  forcedPrefix: (name) => `<${outer}>\n<function=${name === undefined ? '' : `${name}>\n`}`,
});

const HINTS: Record<string, Partial<Hints>> = {
  hermes: {
    startMarkers: ['<tool_call>'],
    forcedPrefix: (name) =>
      `<tool_call>\n{"name": "${name === undefined ? '' : `${JSON.stringify(name).slice(1, -1)}", "arguments": `}`,
  },
  qwen3_coder: functionTag('tool_call'),
  seed: functionTag('seed:tool_call'),
  llama3_json: {
    forcedPrefix: (name) =>
      `{"name": "${name === undefined ? '' : `${JSON.stringify(name).slice(1, -1)}", "parameters": `}`,
  },
};

/** The parser, with what is known of its format. */
export function withCallHints(parser: ToolCallParser & { readonly name: string }): ToolCallParser {
  return { ...HINTS[parser.name], ...parser, parse: (text, tools) => parser.parse(text, tools) };
}
