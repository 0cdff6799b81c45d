/** Where a controller listens and how a rank reaches it: `unix:/path` on one host, `tcp:host:port` between hosts. */
import { rmSync } from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { makeFolder } from './folders.js';

export type Address = { kind: 'unix'; path: string } | { kind: 'tcp'; host: string; port: number };

export function parseAddress(text: string): Address {
  const unix = /^unix:(.+)$/.exec(text);
  if (unix) return { kind: 'unix', path: unix[1]! };
  const tcp = /^tcp:(.+):(\d+)$/.exec(text);
  if (tcp) return { kind: 'tcp', host: tcp[1]!.replace(/^\[(.*)\]$/, '$1'), port: Number(tcp[2]) };
  throw new RangeError(`'${text}' is no address; write unix:/path or tcp:host:port`);
}

export interface Listener {
  /** What ranks are told. */
  address: string;
  close(): Promise<void>;
}

/** Listens on a unix socket in a folder of its own that only this user can enter, or on TCP. */
export async function listen(
  onConnection: (socket: net.Socket) => void,
  options: { kind: 'unix' } | { kind: 'tcp'; host: string; port?: number } = { kind: 'unix' },
): Promise<Listener> {
  const folder = options.kind === 'unix' ? makeFolder(tmpdir()) : null;
  const server = net.createServer({ noDelay: true, keepAlive: true }, onConnection);
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    if (options.kind === 'tcp') server.listen(options.port ?? 0, options.host, resolve);
    else server.listen(path.join(folder!, 'controller'), resolve);
  });
  server.unref();
  const bound = server.address();
  const address =
    typeof bound === 'string' ? `unix:${bound}` : `tcp:${(options as { host: string }).host}:${bound!.port}`;
  return {
    address,
    close: async () => {
      await new Promise<void>((resolve) => server.close(() => resolve()));
      if (folder) rmSync(folder, { recursive: true, force: true });
    },
  };
}

export async function connect(text: string, timeoutMs: number): Promise<net.Socket> {
  const address = parseAddress(text);
  return await new Promise<net.Socket>((resolve, reject) => {
    const socket = net.connect(
      address.kind === 'unix'
        ? { path: address.path }
        : { host: address.host, port: address.port, noDelay: true, keepAlive: true },
    );
    const timer = setTimeout(() => {
      socket.destroy();
      reject(new Error(`no connection to ${text} within ${timeoutMs} ms`));
    }, timeoutMs);
    socket.once('error', (error) => {
      clearTimeout(timer);
      reject(new Error(`cannot connect to ${text}: ${error.message}`, { cause: error }));
    });
    socket.once('connect', () => {
      clearTimeout(timer);
      socket.removeAllListeners('error');
      resolve(socket);
    });
  });
}
