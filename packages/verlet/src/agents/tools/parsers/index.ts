/** Tool-call parsers by name (`multi_turn.format`): one file per format, `registerToolParser` for your own. */
import { deepseekV4, gemma4, glm, kimi, minimax } from './families.js';
import { qwen3Coder, seed } from './function-xml.js';
import { gptOss } from './gpt-oss.js';
import { hermes } from './hermes.js';
import { llama3Json } from './llama3-json.js';
import type { ToolParser } from './types.js';

const parsers = new Map<string, ToolParser>();

export function registerToolParser(parser: ToolParser): void {
  if (parsers.has(parser.name))
    throw new Error(`a tool parser named ${JSON.stringify(parser.name)} is already registered`);
  parsers.set(parser.name, parser);
}

export function toolParser(name: string): ToolParser {
  const parser = parsers.get(name);
  if (!parser)
    throw new Error(`no tool parser named ${JSON.stringify(name)}; there are: ${toolParserNames().join(', ')}`);
  return parser;
}

export function toolParserNames(): string[] {
  return [...parsers.keys()];
}

for (const parser of [hermes, qwen3Coder, llama3Json, gptOss, glm, seed, minimax, kimi, deepseekV4, gemma4]) {
  registerToolParser(parser);
}

export { toolCallId } from './calls.js';
export { splitReasoning } from './reasoning.js';
export type { MalformedToolCall, ParsedToolCall, ParsedTurn, ToolParser } from './types.js';
