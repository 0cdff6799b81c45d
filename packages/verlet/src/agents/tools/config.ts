import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { parse } from 'yaml';
import { z } from 'zod';
import { instantiate, loadExport } from '../modules.js';
import type { ToolSchema } from '../types.js';
import { gsm8kTool } from './builtin/gsm8k.js';
import { searchTool } from './builtin/search.js';
import { McpServers, readMcpServers } from './mcp.js';
import type { Tool } from './types.js';

const toolSchema = z.looseObject({
  type: z.literal('function'),
  function: z.looseObject({
    name: z.string(),
    description: z.string().optional(),
    parameters: z.record(z.string(), z.unknown()).optional(),
  }),
});

const fileSchema = z.object({
  tools: z.array(
    z.object({
      class_name: z.string(),
      config: z
        .looseObject({
          type: z.enum(['native', 'mcp']).default('native'),
          mcp: z
            .looseObject({ mcp_servers_config_path: z.string(), tool_selected_list: z.array(z.string()).optional() })
            .optional(),
        })
        .default({ type: 'native' }),
      tool_schema: toolSchema.optional(),
    }),
  ),
});

type Entry = z.infer<typeof fileSchema>['tools'][number];

export interface LoadedTools {
  tools: Tool[];
  /** Ends the MCP servers that were started. */
  close(): Promise<void>;
}

/** Reads verl's tool YAML (`multi_turn.tool_config_path`). `class_name` is a module path; verl's own names are known. */
export async function loadTools(file: string): Promise<LoadedTools> {
  const parsed = fileSchema.safeParse(parse(await readFile(file, 'utf8')));
  if (!parsed.success) throw new Error(`${file}: ${z.prettifyError(parsed.error)}`);
  const tools: Tool[] = [];
  const servers: McpServers[] = [];
  const close = async () => {
    await Promise.all(servers.map((pool) => pool.close()));
  };
  try {
    for (const entry of parsed.data.tools) {
      if (entry.config.type === 'mcp') {
        const pool = await mcpServersOf(entry, file);
        servers.push(pool);
        tools.push(...(await pool.tools(entry.config.mcp?.tool_selected_list)));
      } else tools.push(await nativeTool(entry, file));
    }
    const repeated = tools.find(({ name }, index) => tools.findIndex((other) => other.name === name) !== index);
    if (repeated) throw new Error(`${file}: two tools are named ${JSON.stringify(repeated.name)}`);
  } catch (error) {
    await close();
    throw error;
  }
  return { tools, close };
}

async function mcpServersOf(entry: Entry, file: string): Promise<McpServers> {
  if (!entry.config.mcp)
    throw new Error(`${file}: ${entry.class_name} is of type mcp and needs config.mcp.mcp_servers_config_path`);
  const serversFile = path.resolve(path.dirname(file), entry.config.mcp.mcp_servers_config_path);
  return new McpServers(await readMcpServers(serversFile));
}

async function nativeTool(entry: Entry, file: string): Promise<Tool> {
  const made =
    builtIn(entry, file) ??
    (await instantiate(await loadExport(entry.class_name, file), entry.config, entry.tool_schema));
  const tool = toTool(made, entry.tool_schema as ToolSchema | undefined);
  if (!tool) {
    throw new Error(
      `${file}: ${entry.class_name} must give a tool: an object with execute() and a name, or a schema in tool_schema`,
    );
  }
  return tool;
}

function builtIn({ class_name, config, tool_schema }: Entry, file: string): Tool | undefined {
  switch (class_name.split('.').at(-1)) {
    case 'Gsm8kTool':
      return gsm8kTool();
    case 'SearchTool': {
      const url = config.retrieval_service_url ?? config.url;
      if (typeof url !== 'string') throw new Error(`${file}: SearchTool needs config.retrieval_service_url`);
      const name = tool_schema?.function.name;
      return searchTool({
        url,
        ...(typeof config.topk === 'number' ? { topk: config.topk } : {}),
        ...(name ? { name } : {}),
      });
    }
    default:
      return undefined;
  }
}

/** Takes a `Tool`, or an instance of a class with verl's method names in camel case; the YAML's schema wins. */
function toTool(made: unknown, schema: ToolSchema | undefined): Tool | undefined {
  const candidate = made as (Partial<Tool> & { calcReward?: Tool['reward'] }) | null | undefined;
  const usedSchema = schema ?? candidate?.schema;
  if (typeof candidate?.execute !== 'function' || !usedSchema) return undefined;
  const reward = candidate.reward ?? candidate.calcReward;
  return {
    name: usedSchema.function.name,
    schema: usedSchema,
    ...(candidate.timeoutSeconds === undefined ? {} : { timeoutSeconds: candidate.timeoutSeconds }),
    execute: candidate.execute.bind(candidate),
    ...(candidate.check ? { check: candidate.check.bind(candidate) } : {}),
    ...(candidate.create ? { create: candidate.create.bind(candidate) } : {}),
    ...(reward ? { reward: reward.bind(candidate) } : {}),
    ...(candidate.release ? { release: candidate.release.bind(candidate) } : {}),
  };
}
