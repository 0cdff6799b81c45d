/** Tools: `defineTool`, verl's YAML, MCP servers, parsers of tool calls, and the life cycle around them. */
export { gsm8kTool } from './builtin/gsm8k.js';
export { searchTool } from './builtin/search.js';
export { type LoadedTools, loadTools } from './config.js';
export { defineTool, type StandardSchema, type ToolDefinition } from './define-tool.js';
export { type McpServerConfig, McpServers, readMcpServers } from './mcp.js';
export type { McpPoolOptions } from './mcp-pool.js';
export {
  type MalformedToolCall,
  type ParsedToolCall,
  type ParsedTurn,
  registerToolParser,
  type ToolParser,
  toolParser,
  toolParserNames,
} from './parsers/index.js';
export { Toolbox } from './toolbox.js';
export { truncateToolResponse } from './truncate.js';
export { type CheckedArguments, type Tool, type ToolContext, type ToolOutput, ToolUnavailableError } from './types.js';
