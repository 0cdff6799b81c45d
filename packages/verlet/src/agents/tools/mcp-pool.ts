import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import { DeadlineError, messageOf, withDeadline } from '../deadline.js';
import type { McpServerConfig } from './mcp.js';
import { ToolUnavailableError } from './types.js';

export interface McpPoolOptions {
  /**
   * `rollout`: a connection is made for one trajectory and closed after it, nothing leaks between rollouts;
   * `reuse`: still one trajectory at a time, but the connection goes back for the next; `shared`: one for everybody.
   */
  isolation?: 'rollout' | 'reuse' | 'shared';
  /** Open at the same time; trajectories beyond wait, within their tool deadline. */
  maxConnections?: number;
  connectTimeoutSeconds?: number;
  callTimeoutSeconds?: number;
  /** After a failed connect, fail at once for this long instead of letting every rollout wait for the dead server. */
  retryAfterSeconds?: number;
}

interface Connection {
  client: Client;
  transport: Transport;
  isOpen: boolean;
}

interface Lease {
  connection: Promise<Connection>;
  users: number;
}

const SHARED = 'shared';

/** Connections to one MCP server, leased to trajectories. */
export class McpPool {
  private readonly options: Required<McpPoolOptions>;
  private readonly leases = new Map<string, Lease>();
  private readonly idle: Connection[] = [];
  private readonly open = new Set<Connection>();
  private readonly queue: (() => void)[] = [];
  private slotsTaken = 0;
  private failure: { message: string; until: number } | undefined;

  constructor(
    readonly name: string,
    private readonly config: McpServerConfig,
    options: McpPoolOptions = {},
  ) {
    this.options = {
      isolation: 'rollout',
      maxConnections: 32,
      connectTimeoutSeconds: 10,
      callTimeoutSeconds: 60,
      retryAfterSeconds: 5,
      ...options,
    };
  }

  async listTools() {
    const connection = await this.connect();
    try {
      const { tools } = await connection.client.listTools(undefined, {
        timeout: this.options.connectTimeoutSeconds * 1000,
      });
      return tools;
    } finally {
      await this.put(connection);
    }
  }

  /** Called once per tool and trajectory; the tools of one trajectory share its connection. */
  async lease(instanceId: string, signal?: AbortSignal): Promise<void> {
    const key = this.options.isolation === 'shared' ? SHARED : instanceId;
    let lease = this.leases.get(key);
    if (!lease) {
      lease = { connection: this.take(signal), users: 0 };
      this.leases.set(key, lease);
    }
    lease.users++;
    try {
      await lease.connection;
    } catch (error) {
      if (this.leases.get(key) === lease) this.leases.delete(key);
      throw error;
    }
  }

  async call(instanceId: string, tool: string, args: Record<string, unknown>, signal?: AbortSignal): Promise<string> {
    const lease = this.leases.get(this.options.isolation === 'shared' ? SHARED : instanceId);
    if (!lease) throw new ToolUnavailableError(`MCP server ${this.name} was released already`);
    const connection = await lease.connection;
    if (!connection.isOpen)
      throw new ToolUnavailableError(`MCP server ${this.name} is gone: its connection was closed`);
    const { callTimeoutSeconds } = this.options;
    try {
      const result = await withDeadline(
        `${tool} on MCP server ${this.name}`,
        callTimeoutSeconds,
        (deadline) =>
          connection.client.callTool({ name: tool, arguments: args }, undefined, {
            signal: deadline,
            timeout: callTimeoutSeconds * 1000,
          }),
        signal,
      );
      const text = textOfResult(result);
      if (result.isError) throw new Error(text || `${tool} failed without a message`);
      return text;
    } catch (error) {
      if (error instanceof DeadlineError || connection.isOpen) throw error;
      throw new ToolUnavailableError(`MCP server ${this.name} is gone: ${messageOf(error)}`);
    }
  }

  async release(instanceId: string): Promise<void> {
    if (this.options.isolation === 'shared') return;
    const lease = this.leases.get(instanceId);
    if (!lease || --lease.users > 0) return;
    this.leases.delete(instanceId);
    const connection = await lease.connection.catch(() => undefined);
    if (connection) await this.put(connection);
    this.freeSlot();
  }

  async close(): Promise<void> {
    this.leases.clear();
    await Promise.all([...this.open].map((connection) => this.shut(connection)));
  }

  private async take(signal?: AbortSignal): Promise<Connection> {
    await this.slot(signal);
    try {
      for (let connection = this.idle.pop(); connection; connection = this.idle.pop()) {
        if (connection.isOpen) return connection;
      }
      return await this.connect();
    } catch (error) {
      this.freeSlot();
      throw error;
    }
  }

  private async put(connection: Connection): Promise<void> {
    if (this.options.isolation !== 'rollout' && connection.isOpen) this.idle.push(connection);
    else await this.shut(connection);
  }

  private async shut(connection: Connection): Promise<void> {
    const { client, transport, isOpen } = connection;
    this.open.delete(connection);
    connection.isOpen = false;
    const close = async (): Promise<void> => {
      // A server that keeps sessions would keep one for every rollout that ever was.
      if (isOpen && transport instanceof StreamableHTTPClientTransport)
        await transport.terminateSession().catch(() => {});
      await client.close();
    };
    await withDeadline(`closing MCP server ${this.name}`, this.options.connectTimeoutSeconds, close).catch(() => {});
  }

  private async connect(): Promise<Connection> {
    if (this.failure && Date.now() < this.failure.until) throw new ToolUnavailableError(this.failure.message);
    const client = new Client({ name: 'verlet', version: '0.1.0' });
    const transport = this.transport();
    const connection: Connection = { client, transport, isOpen: true };
    client.onclose = () => {
      connection.isOpen = false;
      this.open.delete(connection);
    };
    const seconds = this.options.connectTimeoutSeconds;
    try {
      await withDeadline('the connection', seconds, () => client.connect(transport, { timeout: seconds * 1000 }));
    } catch (error) {
      client.close().catch(() => {});
      const message = `MCP server ${this.name} cannot be reached: ${messageOf(error)}`;
      this.failure = { message, until: Date.now() + this.options.retryAfterSeconds * 1000 };
      throw new ToolUnavailableError(message);
    }
    this.failure = undefined;
    this.open.add(connection);
    return connection;
  }

  private transport(): Transport {
    const { config } = this;
    if ('command' in config) {
      const { command, args, env, cwd } = config as {
        command: string;
        args?: string[];
        env?: Record<string, string>;
        cwd?: string;
      };
      // 64 MiB: a large answer is for the tool-response limit to cut, not a reason to lose the server.
      return new StdioClientTransport({ command, args, env, cwd, stderr: 'ignore', maxBufferSize: 64 << 20 });
    }
    const { url, headers, auth_token } = config as {
      url: string;
      headers?: Record<string, string>;
      auth_token?: string;
    };
    const allHeaders: Record<string, string> = { ...headers };
    if (auth_token) allHeaders.authorization = `Bearer ${auth_token}`;
    return new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers: allHeaders } });
  }

  private async slot(signal?: AbortSignal): Promise<void> {
    if (this.slotsTaken < this.options.maxConnections) {
      this.slotsTaken++;
      return;
    }
    await new Promise<void>((resolve, reject) => {
      const onAbort = () => {
        this.queue.splice(this.queue.indexOf(enter), 1);
        reject(signal?.reason);
      };
      const enter = () => {
        signal?.removeEventListener('abort', onAbort);
        resolve();
      };
      this.queue.push(enter);
      signal?.addEventListener('abort', onAbort, { once: true });
    });
  }

  /** Hands the slot to the next in line. */
  private freeSlot(): void {
    const next = this.queue.shift();
    if (next) next();
    else this.slotsTaken--;
  }
}

function textOfResult(result: { [key: string]: unknown }): string {
  const content = Array.isArray(result.content) ? (result.content as { type: string; text?: string }[]) : [];
  const texts = content.map((part) => (part.type === 'text' ? (part.text ?? '') : `[${part.type}]`));
  if (texts.length === 0 && result.structuredContent !== undefined) return JSON.stringify(result.structuredContent);
  return texts.join('\n');
}
