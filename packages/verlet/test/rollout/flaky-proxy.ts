/** A real HTTP server that stands before another one and misbehaves as planned, one plan entry per generation. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export type Mishap =
  | { kind: 'reset' }
  | { kind: 'status'; status: number; retryAfter?: string }
  | { kind: 'cut'; afterEvents: number }
  | { kind: 'silence'; afterEvents: number };

export interface FlakyProxy {
  url: string;
  readonly plan: Mishap[];
  /** Bodies of the generation requests, in order. */
  // biome-ignore lint/suspicious/noExplicitAny: tests look into them
  readonly bodies: any[];
  close(): Promise<void>;
}

export async function startFlakyProxy(target: string, plan: Mishap[] = []): Promise<FlakyProxy> {
  const bodies: unknown[] = [];
  const server = createServer((request, response) => {
    forward(request, response).catch(() => response.destroy());
  });

  async function forward(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const body = Buffer.concat(chunks).toString();
    const isGeneration = request.url === '/v1/completions';
    if (isGeneration) bodies.push(JSON.parse(body));
    const mishap = isGeneration ? plan.shift() : undefined;
    if (mishap?.kind === 'reset') return void response.socket!.destroy();
    if (mishap?.kind === 'status') {
      response.writeHead(mishap.status, mishap.retryAfter ? { 'retry-after': mishap.retryAfter } : {});
      return void response.end('overloaded');
    }
    const leaving = new AbortController();
    response.on('close', () => leaving.abort());
    const upstream = await fetch(target + request.url, {
      method: request.method,
      headers: { 'content-type': 'application/json' },
      body: request.method === 'POST' ? body : undefined,
      signal: leaving.signal,
    });
    response.writeHead(upstream.status, { 'content-type': upstream.headers.get('content-type') ?? 'text/plain' });
    let events = 0;
    let pending = '';
    for await (const bytes of upstream.body as unknown as AsyncIterable<Uint8Array>) {
      pending += Buffer.from(bytes).toString('latin1');
      const blocks = pending.split('\n\n');
      pending = blocks.pop()!;
      for (const block of blocks) {
        if (mishap && 'afterEvents' in mishap && events++ >= mishap.afterEvents) {
          if (mishap.kind === 'cut') response.socket!.destroy();
          else await new Promise((resolve) => leaving.signal.addEventListener('abort', resolve));
          return;
        }
        response.write(Buffer.from(`${block}\n\n`, 'latin1'));
      }
    }
    response.end(Buffer.from(pending, 'latin1'));
  }

  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    plan,
    bodies,
    async close() {
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeAllConnections();
      await closed;
    },
  };
}
