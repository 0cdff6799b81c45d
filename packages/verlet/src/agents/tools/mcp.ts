import { readFile } from 'node:fs/promises';
import { z } from 'zod';
import type { ToolSchema } from '../types.js';
import { McpPool, type McpPoolOptions } from './mcp-pool.js';
import type { Tool } from './types.js';

const serverSchema = z.union([
  z.looseObject({
    command: z.string(),
    args: z.array(z.string()).optional(),
    env: z.record(z.string(), z.string()).optional(),
    cwd: z.string().optional(),
  }),
  z.looseObject({
    url: z.url(),
    headers: z.record(z.string(), z.string()).optional(),
    auth_token: z.string().optional(),
  }),
]);

/** A program to start and talk to over its standard streams, or an address to talk to over HTTP. */
export type McpServerConfig = z.infer<typeof serverSchema>;

const fileSchema = z.object({ mcpServers: z.record(z.string(), serverSchema) });

/** Reads the usual `{ "mcpServers": { NAME: { command, args, env } | { url, auth_token } } }` file. */
export async function readMcpServers(file: string): Promise<Record<string, McpServerConfig>> {
  const parsed = fileSchema.safeParse(JSON.parse(await readFile(file, 'utf8')));
  if (!parsed.success) throw new Error(`${file}: ${z.prettifyError(parsed.error)}`);
  return parsed.data.mcpServers;
}

/**
 * MCP servers whose tools can be given to agents. Every trajectory talks over a connection of its own (see `McpPool`).
 *
 * @example
 * const servers = new McpServers({ files: { command: 'node', args: ['server.js'] } });
 * const { trajectories } = await runAgents(rows, { engine, tokenizer, tools: await servers.tools() });
 * await servers.close();
 */
export class McpServers {
  private readonly pools: McpPool[];

  constructor(servers: Record<string, McpServerConfig>, options: McpPoolOptions = {}) {
    this.pools = Object.entries(servers).map(([name, config]) => new McpPool(name, config, options));
  }

  /** The tools of all servers, or the selected ones. Fails with the server's name when one cannot be reached. */
  async tools(selected?: readonly string[]): Promise<Tool[]> {
    const tools = (await Promise.all(this.pools.map(toolsOf))).flat();
    const missing = selected?.filter((name) => !tools.some((tool) => tool.name === name)) ?? [];
    if (missing.length > 0) {
      throw new Error(
        `no MCP server has ${missing.join(', ')}; there are: ${tools.map(({ name }) => name).join(', ')}`,
      );
    }
    return selected ? tools.filter(({ name }) => selected.includes(name)) : tools;
  }

  async close(): Promise<void> {
    await Promise.all(this.pools.map((pool) => pool.close()));
  }
}

async function toolsOf(pool: McpPool): Promise<Tool[]> {
  const listed = await pool.listTools();
  return listed.map(({ name, description, inputSchema }) => {
    const schema: ToolSchema = {
      type: 'function',
      function: { name, description: description ?? '', parameters: inputSchema as Record<string, unknown> },
    };
    return {
      name,
      schema,
      create: ({ instanceId, signal }) => pool.lease(instanceId, signal),
      execute: (input, { instanceId, signal }) => pool.call(instanceId, name, input as Record<string, unknown>, signal),
      release: ({ instanceId }) => pool.release(instanceId),
    };
  });
}
