/** The program of a child process: dials the controller, builds its workers, answers calls one after the other. */
import { ProcessGroup, setThreads, TcpStore } from '@verlet/torch';
import { DataProto } from '../../protocol/index.js';
import { singleProcess, type WorkerContext } from '../../workers/context.js';
import { rankContext } from '../rank-context.js';
import { Channel, connect, encodeFrame, packPayload, SharedMemory } from '../transport/index.js';
import { RankState, startLifeline } from './lifeline.js';
import type { PlainRoleSpec } from './types.js';

export interface StartRequest {
  roles: PlainRoleSpec[];
  device: string;
  backend: 'gloo' | 'nccl';
  collectiveTimeoutMs: number;
  sharedMemoryFolder: string | null;
}

function setting(name: string): string {
  const value = process.env[name];
  if (value === undefined || value === '')
    throw new Error(`${name} is not set: this program is started by a launcher, not by hand`);
  return value;
}

const rank = Number(setting('RANK'));
const worldSize = Number(setting('WORLD_SIZE'));
const address = setting('VERLET_CONTROLLER');
const token = setting('VERLET_TOKEN');
const state = new RankState();

// A Ctrl-C in a terminal reaches the whole process group; the controller decides when ranks end, and its end is theirs.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {});

const frame = (method: string, ...args: unknown[]): Uint8Array =>
  Buffer.concat(encodeFrame({ header: packPayload({ kind: 'notify', method, args }).header, attachments: [] }));

startLifeline({
  address,
  hello: frame('hello', { rank, token, part: 'lifeline', pid: process.pid }),
  working: frame('heartbeat', false),
  waiting: frame('heartbeat', true),
  state,
  intervalMs: Number(process.env.VERLET_HEARTBEAT_MS ?? 1000),
  graceMs: 2000,
});

type AnyWorker = Record<string, (...args: unknown[]) => unknown>;
const workers = new Map<string, AnyWorker>();
let group: ProcessGroup | null = null;
let store: TcpStore | null = null;

async function openContext(request: StartRequest): Promise<WorkerContext> {
  if (worldSize === 1) return singleProcess(request.device);
  const host = setting('MASTER_ADDR');
  const timeoutMs = request.collectiveTimeoutMs;
  store = await TcpStore.open({ host, port: Number(setting('MASTER_PORT')), timeoutMs });
  group = await ProcessGroup.open(store, {
    rank,
    worldSize,
    backend: request.backend,
    timeoutMs,
    // On one machine the ranks meet on the loopback interface; elsewhere each takes its own name.
    host: host === '127.0.0.1' ? host : undefined,
    device: 0,
  });
  return rankContext(group, { device: request.device, onWaiting: (waiting) => state.setWaiting(waiting) });
}

async function start(request: StartRequest): Promise<void> {
  if (process.env.OMP_NUM_THREADS) setThreads(Number(process.env.OMP_NUM_THREADS));
  const context = await openContext(request);
  for (const { role, source, config } of request.roles) {
    const module = (await import(source.module)) as Record<string, unknown>;
    const workerClass = module[source.export];
    if (typeof workerClass !== 'function')
      throw new TypeError(`${source.module} exports no class '${source.export}' for role ${role}`);
    workers.set(role, new (workerClass as new (...args: unknown[]) => AnyWorker)(config, context));
  }
  if (request.sharedMemoryFolder) channel.sharedMemory = new SharedMemory(request.sharedMemoryFolder);
}

async function call(role: string, method: string, args: unknown[]): Promise<unknown> {
  const worker = workers.get(role);
  if (!worker) throw new Error(`this rank has no role '${role}'`);
  const body = worker[method];
  if (typeof body !== 'function') throw new TypeError(`role ${role} has no method '${method}'`);
  try {
    return await body.apply(worker, args);
  } finally {
    state.setWaiting(false);
    // The arguments were made for this call.
    for (const arg of args) if (arg instanceof DataProto) arg.dispose();
  }
}

async function close(): Promise<void> {
  for (const worker of workers.values()) await worker.close?.();
  await group?.close();
  await store?.close();
}

// One call at a time, in the order they came: collectives of all ranks must meet in the same order.
let queue: Promise<unknown> = Promise.resolve();
function inTurn<T>(body: () => Promise<T>): Promise<T> {
  const next = queue.then(body);
  queue = next.catch(() => {});
  return next;
}

const channel = new Channel(await connect(address, 30_000), {
  handle(method, args) {
    if (method === 'start') return inTurn(() => start(args[0] as StartRequest));
    if (method === 'call') return inTurn(() => call(...(args as [string, string, unknown[]])));
    if (method === 'close') return inTurn(close);
    throw new Error(`nobody answers ${method} here`);
  },
  onSent(result) {
    if (result instanceof DataProto) result.dispose();
  },
  // Nothing is lost by leaving at once: checkpoints are the controller's to ask for.
  onClose: () => process.exit(0),
});
channel.notify('hello', [{ rank, token, part: 'calls', pid: process.pid }]);
