import { type ServerType, serve } from '@hono/node-server';
import { Hono } from 'hono';
import { bodyLimit } from 'hono/body-limit';
import { z } from 'zod';
import { messageOf } from '../deadline.js';
import { type Retriever, retrieveRequestSchema } from './contract.js';

export interface RetrieverServerOptions {
  topk?: number;
  hostname?: string;
  /** 0 takes a free one. */
  port?: number;
  /** Asked for as a bearer token; required when the server listens beyond this machine. */
  token?: string;
}

export interface RetrieverServer {
  url: string;
  close(): Promise<void>;
}

/** The HTTP side of the contract: `POST /retrieve`, and `GET /health` for those who wait for the server. */
export function retrieverApp(
  retriever: Retriever & { size?: number },
  { topk = 3, token }: RetrieverServerOptions = {},
): Hono {
  const app = new Hono();
  app.get('/health', (context) => context.json({ status: 'ok', documents: retriever.size ?? null }));
  app.post('/retrieve', bodyLimit({ maxSize: 16 << 20 }), async (context) => {
    if (token && context.req.header('authorization') !== `Bearer ${token}`)
      return context.json({ error: 'a bearer token is needed' }, 401);
    const parsed = retrieveRequestSchema.safeParse(await context.req.json().catch(() => undefined));
    if (!parsed.success) return context.json({ error: z.prettifyError(parsed.error) }, 422);
    const { queries, topk: asked, return_scores } = parsed.data;
    try {
      const hits = await retriever.retrieve(queries, asked ?? topk, context.req.raw.signal);
      return context.json({ result: return_scores ? hits : hits.map((list) => list.map(({ document }) => document)) });
    } catch (error) {
      return context.json({ error: messageOf(error) }, 502);
    }
  });
  return app;
}

export async function serveRetriever(
  retriever: Retriever & { size?: number },
  options: RetrieverServerOptions = {},
): Promise<RetrieverServer> {
  const { hostname = '127.0.0.1', port = 8000, token } = options;
  if (!token && !['127.0.0.1', '::1', 'localhost'].includes(hostname)) {
    throw new Error(`refusing to listen on ${hostname} without a token: give one, or listen on 127.0.0.1`);
  }
  const server = await new Promise<ServerType>((resolve, reject) => {
    const starting = serve({ fetch: retrieverApp(retriever, options).fetch, hostname, port }, () => resolve(starting));
    starting.once('error', reject);
  });
  const address = server.address();
  const boundPort = typeof address === 'object' && address ? address.port : port;
  return {
    url: `http://${hostname.includes(':') ? `[${hostname}]` : hostname}:${boundPort}/retrieve`,
    close: () =>
      new Promise((resolve, reject) => {
        server.close((error) => (error ? reject(error) : resolve()));
        if ('closeAllConnections' in server) server.closeAllConnections();
      }),
  };
}
