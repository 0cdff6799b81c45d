import { randomUUID } from 'node:crypto';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import type { Tokenizer } from '../../models/tokenizer/index.js';
import { runAgents } from '../runner.js';
import { ScriptedEngine, tinyTokenizer } from '../testing/index.js';
import { McpServers } from './mcp.js';
import { Toolbox } from './toolbox.js';

const stdio = {
  command: process.execPath,
  args: [fileURLToPath(new URL('../fixtures/mcp-server.mjs', import.meta.url))],
};
const config = { toolTimeoutSeconds: 20, maxToolResponseLength: 200, toolResponseTruncateSide: 'middle' as const };
const idle = new AbortController().signal;

const open: McpServers[] = [];
function serversOf(...args: ConstructorParameters<typeof McpServers>): McpServers {
  const servers = new McpServers(...args);
  open.push(servers);
  return servers;
}
afterAll(() => Promise.all(open.map((servers) => servers.close())));

async function toolboxOf(
  servers: McpServers,
  instanceId: string,
): Promise<(name: string, args?: Record<string, unknown>) => Promise<{ status: string; response: string }>> {
  const box = new Toolbox(await servers.tools(), instanceId, { prompt: [] }, config);
  return (name, args = {}) => box.call({ id: 'c', name, arguments: args }, 1, idle);
}

describe('a server over standard streams', () => {
  it('lists its tools as function schemas, all or some', async () => {
    const servers = serversOf({ counter: stdio });
    const [count] = await servers.tools(['count']);
    expect(count!.schema.function).toMatchObject({
      name: 'count',
      description: 'Counts up',
      parameters: { type: 'object', properties: { by: { type: 'number' } } },
    });
    await expect(servers.tools(['coumt'])).rejects.toThrow(/no MCP server has coumt; there are: count, hang/);
  });

  it('is another one for every rollout, and the same one within a rollout', async () => {
    const servers = serversOf({ counter: stdio });
    const tools = await servers.tools();
    const boxes = ['a', 'b'].map((id) => new Toolbox(tools, id, { prompt: [] }, config));
    const count = async (box: Toolbox, by: number) =>
      (await box.call({ id: 'c', name: 'count', arguments: { by } }, 1, idle)).response;
    expect(await Promise.all([count(boxes[0]!, 1), count(boxes[1]!, 10)])).toEqual(['1', '10']);
    expect(await count(boxes[0]!, 1)).toBe('2');
    const errors: string[] = [];
    for (const box of boxes) await box.release((_, error) => errors.push(error));
    expect(errors).toEqual([]);
  });

  it('can be shared when it keeps no state', async () => {
    const servers = serversOf({ counter: stdio }, { isolation: 'shared' });
    const first = await toolboxOf(servers, 'a');
    const second = await toolboxOf(servers, 'b');
    expect((await first('count', { by: 1 })).response).toBe('1');
    expect((await second('count', { by: 1 })).response).toBe('2');
  });

  it('can go from one rollout to the next, never to two at a time', async () => {
    const servers = serversOf({ counter: stdio }, { isolation: 'reuse' });
    const tools = await servers.tools();
    const boxOf = (id: string) => new Toolbox(tools, id, { prompt: [] }, config);
    const count = async (box: Toolbox) =>
      (await box.call({ id: 'c', name: 'count', arguments: { by: 1 } }, 1, idle)).response;
    const [first, second] = [boxOf('a'), boxOf('b')];
    expect(await Promise.all([count(first), count(second)])).toEqual(['1', '1']);
    await first.release(() => {});
    expect(await count(boxOf('c'))).toBe('2');
  });

  it('hanging, failing, flooding and dying are answers with a status', async () => {
    const servers = serversOf({ counter: stdio }, { callTimeoutSeconds: 0.3 });
    const call = await toolboxOf(servers, 'a');
    expect(await call('hang')).toMatchObject({
      status: 'timeout',
      response: 'Error: hang on MCP server counter did not finish within 0.3 s',
    });
    expect(await call('fail')).toMatchObject({ status: 'error', response: expect.stringContaining('no such file') });
    const patient = await toolboxOf(serversOf({ counter: stdio }), 'a');
    expect(await patient('flood')).toMatchObject({ status: 'ok', truncated: true });
    expect(await patient('die')).toMatchObject({ status: 'unavailable' });
    expect(await patient('count', { by: 1 })).toMatchObject({
      status: 'unavailable',
      response: expect.stringContaining('MCP server counter is gone'),
    });
  });

  it('that cannot be started says so by name', async () => {
    const servers = serversOf({ ghost: { command: '/no/such/program' } });
    await expect(servers.tools()).rejects.toThrow(/MCP server ghost cannot be reached: .*ENOENT/);
  });

  it('trajectories beyond the connection limit wait for a free one', async () => {
    const servers = serversOf({ counter: stdio }, { maxConnections: 1 });
    const tools = await servers.tools();
    const run = async (id: string) => {
      const box = new Toolbox(tools, id, { prompt: [] }, config);
      const { response } = await box.call({ id: 'c', name: 'count', arguments: { by: 5 } }, 1, idle);
      await box.release(() => {});
      return response;
    };
    expect(await Promise.all([run('a'), run('b'), run('c')])).toEqual(['5', '5', '5']);
  });
});

describe('a server over HTTP', () => {
  let http: Server;
  let url: string;
  beforeAll(async () => {
    http = createServer(async (request, response) => {
      if (request.headers.authorization !== 'Bearer secret') {
        response.writeHead(401).end();
        return;
      }
      const server = new McpServer({ name: 'echo', version: '1.0.0' });
      server.registerTool('echo', { inputSchema: { text: z.string() } }, async ({ text }) => ({
        content: [{ type: 'text', text }],
      }));
      const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined });
      await server.connect(transport);
      await transport.handleRequest(request, response);
    });
    await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
    url = `http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp`;
  });
  afterAll(() => {
    http.closeAllConnections();
    http.close();
  });

  it('is called with its token', async () => {
    const call = await toolboxOf(serversOf({ echo: { url, auth_token: 'secret' } }), 'a');
    expect(await call('echo', { text: 'hello' })).toMatchObject({ status: 'ok', response: 'hello' });
    await expect(serversOf({ echo: { url } }).tools()).rejects.toThrow(/MCP server echo cannot be reached/);
  });
});

describe('a server over HTTP that keeps sessions', () => {
  const sessions = new Map<string, StreamableHTTPServerTransport>();
  const ended: string[] = [];
  let http: Server;
  let url: string;

  async function openSession(): Promise<StreamableHTTPServerTransport> {
    let total = 0;
    const server = new McpServer({ name: 'counter', version: '1.0.0' });
    server.registerTool('count', { inputSchema: { by: z.number() } }, async ({ by }) => {
      total += by;
      return { content: [{ type: 'text', text: String(total) }] };
    });
    server.registerTool('hang', { inputSchema: {} }, () => new Promise(() => {}));
    const transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (id) => void sessions.set(id, transport),
      onsessionclosed: (id) => void ended.push(id),
    });
    await server.connect(transport);
    return transport;
  }

  beforeAll(async () => {
    http = createServer(async (request, response) => {
      const known = sessions.get(String(request.headers['mcp-session-id']));
      await (known ?? (await openSession())).handleRequest(request, response);
    });
    await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
    url = `http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp`;
  });
  afterAll(() => {
    http.closeAllConnections();
    http.close();
  });

  it('is a session of its own for every rollout, ended with it', async () => {
    const servers = serversOf({ counter: { url } });
    const tools = await servers.tools();
    const boxes = ['a', 'b'].map((id) => new Toolbox(tools, id, { prompt: [] }, config));
    const count = async (box: Toolbox, by: number) =>
      (await box.call({ id: 'c', name: 'count', arguments: { by } }, 1, idle)).response;
    expect(await Promise.all([count(boxes[0]!, 1), count(boxes[1]!, 10)])).toEqual(['1', '10']);
    expect([await count(boxes[0]!, 1), await count(boxes[1]!, 10)]).toEqual(['2', '20']);
    const before = ended.length;
    for (const box of boxes) await box.release(() => {});
    expect(ended.length - before).toBe(2);
  });

  it('that hangs is left at the deadline, and the rollout goes on in its session', async () => {
    const call = await toolboxOf(serversOf({ counter: { url } }, { callTimeoutSeconds: 1 }), 'a');
    await call('count', { by: 3 });
    expect(await call('hang')).toMatchObject({ status: 'timeout' });
    expect(await call('count', { by: 3 })).toMatchObject({ status: 'ok', response: '6' });
  });
});

describe('a server that dies during a batch', () => {
  let tokenizer: Tokenizer;
  let endTokenId: number;
  beforeAll(async () => {
    ({ tokenizer, endTokenId } = await tinyTokenizer());
  });

  it('the batch completes and the reasons are counted', async () => {
    const http = createServer(async (request, response) => {
      const server = new McpServer({ name: 'echo', version: '1.0.0' });
      server.registerTool('echo', { inputSchema: {} }, async () => ({ content: [{ type: 'text', text: 'hi' }] }));
      const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined });
      await server.connect(transport);
      await transport.handleRequest(request, response);
    });
    await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
    const servers = serversOf({ echo: { url: `http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp` } });
    const tools = await servers.tools();
    http.closeAllConnections();
    await new Promise((resolve) => http.close(resolve));

    const script = (prompt: string) =>
      prompt.includes('<tool_response>') ? 'I give up.' : '<tool_call>{"name": "echo", "arguments": {}}</tool_call>';
    const rows = Array.from({ length: 50 }, () => ({
      prompt: [{ role: 'user', content: 'Say hi.' }],
      agent_name: 'tool_agent',
    }));
    const { trajectories, metrics } = await runAgents(rows, {
      engine: new ScriptedEngine({ tokenizer, endTokenId, script }),
      tokenizer,
      config: { responseLength: 2000, maxPromptLength: 2000 },
      tools,
    });
    expect(trajectories.every(({ endReason }) => endReason === 'stop')).toBe(true);
    expect(metrics['agent/tool_status/unavailable']).toBe(50);
    expect(trajectories[0]!.toolCalls[0]!.response).toContain('MCP server echo cannot be reached');
  });
});
