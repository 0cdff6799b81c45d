/** The socket: where the server binds, and how it ends. */
import { once } from 'node:events';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createAdaptorServer } from '@hono/node-server';
import { createApp } from './app.js';
import { ApiError } from './errors.js';
import type { ServerMetrics } from './metrics.js';
import type { ServerOptions } from './types.js';

export interface ListenOptions extends ServerOptions {
  /** Default 127.0.0.1. Any address beyond loopback needs an `apiKey`. */
  host?: string;
  /** Default: any free port. */
  port?: number;
}

export interface RunningServer {
  readonly host: string;
  readonly port: number;
  /** `http://host:port`; OpenAI clients take this with `/v1` behind it. */
  readonly url: string;
  readonly metrics: ServerMetrics;
  /** Refuses new requests, lets running ones finish for `deadlineMs` (default 10 s), then cuts them off. */
  close(options?: { deadlineMs?: number }): Promise<void>;
}

const LOOPBACK = /^(127(\.\d{1,3}){3}|::1|localhost)$/;

export async function startServer(options: ListenOptions): Promise<RunningServer> {
  const host = options.host ?? '127.0.0.1';
  const isLoopback = LOOPBACK.test(host);
  if (!isLoopback && !options.apiKey) {
    throw new Error(
      `refusing to listen on ${host} without an API key: anybody who can reach it could use the model. ` +
        'Give one (--api-key, or VERLET_API_KEY), or listen on 127.0.0.1',
    );
  }
  const allowedHosts = isLoopback && !options.apiKey ? ['localhost', '127.0.0.1', '[::1]', host] : undefined;
  const app = createApp({ ...options, allowedHosts });
  const server = createAdaptorServer({ fetch: app.fetch }) as Server;
  // Longer than clients keep idle connections, so that they do not send a request into one that is just closing.
  server.keepAliveTimeout = 65_000;
  server.listen(options.port ?? 0, host);
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;

  let closing: Promise<void> | undefined;
  const close = async (deadlineMs: number) => {
    app.stopAccepting();
    const closed = once(server, 'close');
    server.close();
    server.closeIdleConnections();
    await until(() => app.live.size === 0, deadlineMs);
    for (const scope of app.live) scope.abort(new ApiError(503, 'The server is shutting down.', null, 'shutting_down'));
    // Cut-off requests still get their error before the connections go.
    await until(() => app.live.size === 0, 1000);
    server.closeIdleConnections();
    const force = setTimeout(() => server.closeAllConnections(), 250);
    await closed;
    clearTimeout(force);
  };
  return {
    host,
    port,
    url: `http://${host.includes(':') ? `[${host}]` : host}:${port}`,
    metrics: app.metrics,
    close: ({ deadlineMs = 10_000 } = {}) => {
      closing ??= close(deadlineMs);
      return closing;
    },
  };
}

async function until(holds: () => boolean, deadlineMs: number): Promise<void> {
  const deadline = performance.now() + deadlineMs;
  while (!holds() && performance.now() < deadline) await new Promise((resolve) => setTimeout(resolve, 10));
}
