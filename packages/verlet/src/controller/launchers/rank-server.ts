/** The controller's end of the ranks' connections, whoever started them: who is there, who lives, who is waiting for whom. */
import { randomBytes, timingSafeEqual } from 'node:crypto';
import type { Socket } from 'node:net';
import { UserError } from '../../config/index.js';
import { WorkerError } from '../errors.js';
import { Channel, DeadlineError, type Listener, listen, RemoteError, SharedMemory } from '../transport/index.js';
import type { StartRequest } from './rank-entry.js';
import type { LaunchOptions } from './types.js';

interface Hello {
  rank: number;
  token: string;
  part: 'calls' | 'lifeline';
  pid: number;
}

interface Rank {
  channel: Channel | null;
  lifeline: Channel | null;
  lastSign: number;
  /** Said by its heartbeat: it waits for its peers in a collective. */
  waiting: boolean;
  /** The method it runs. */
  running: string | null;
  end: { reason: string; tail: string } | null;
}

const helloBytes = 4096;
const endNoticeMs = 5000;

export class RankServer {
  readonly token = randomBytes(16).toString('hex');
  readonly failed: Promise<never>;
  private fail!: (error: WorkerError) => void;
  private readonly ranks: Rank[];
  private listener!: Listener;
  private memory: SharedMemory | null = null;
  private arrived!: () => void;
  private readonly allArrived: Promise<void>;
  private endIsExpected = false;
  private monitor: NodeJS.Timeout | undefined;
  private lastCheck = 0;
  private readonly endWaiters = new Set<() => void>();

  private constructor(
    private readonly options: LaunchOptions,
    private readonly heartbeatTimeoutMs: number,
  ) {
    this.failed = new Promise((_, reject) => {
      this.fail = reject;
    });
    this.failed.catch(() => {});
    this.allArrived = new Promise((resolve) => {
      this.arrived = resolve;
    });
    this.ranks = Array.from({ length: options.worldSize }, () => ({
      channel: null,
      lifeline: null,
      lastSign: Date.now(),
      waiting: false,
      running: null,
      end: null,
    }));
  }

  static async open(
    options: LaunchOptions,
    settings: { heartbeatTimeoutMs: number; at?: Parameters<typeof listen>[1] },
  ): Promise<RankServer> {
    const server = new RankServer(options, settings.heartbeatTimeoutMs);
    server.listener = await listen((socket) => server.welcome(socket), settings.at);
    // Ranks on other machines do not see this machine's memory.
    if (options.sharedMemory !== false && settings.at?.kind !== 'tcp') server.memory = SharedMemory.create();
    return server;
  }

  get address(): string {
    return this.listener.address;
  }

  private welcome(socket: Socket): void {
    // Calls that wait hold the controller open by their deadlines; ranks that nobody calls do not, and end with it.
    socket.unref();
    let rank: Rank | null = null;
    const channel: Channel = new Channel(socket, {
      maxBytes: helloBytes,
      handle: (method, [value]) => {
        if (method === 'hello') {
          rank = this.admit(value as Hello, channel);
          if (!rank) channel.close(new Error('refused'));
        } else if (method === 'heartbeat' && rank) {
          rank.lastSign = Date.now();
          rank.waiting = value === true;
        } else channel.close(new Error('said something else than hello'));
      },
    });
  }

  private admit(hello: Hello, channel: Channel): Rank | null {
    const given = Buffer.from(String(hello.token));
    const wanted = Buffer.from(this.token);
    const rank = this.ranks[hello.rank];
    if (given.length !== wanted.length || !timingSafeEqual(given, wanted) || !rank) return null;
    const part = hello.part === 'lifeline' ? 'lifeline' : 'channel';
    // A second process under the same number would be a stale one.
    if (rank[part]) return null;
    rank[part] = channel;
    rank.lastSign = Date.now();
    channel.maxBytes = Number.POSITIVE_INFINITY;
    if (this.ranks.every((other) => other.channel && other.lifeline)) this.arrived();
    return rank;
  }

  /** Waits for all ranks and has them build their workers. */
  async start(request: Omit<StartRequest, 'sharedMemoryFolder'>): Promise<void> {
    const { timeoutMs, worldSize } = this.options;
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(
        () => {
          const missing = this.ranks.findIndex((rank) => !rank.channel || !rank.lifeline);
          const reason = `it did not call the controller within ${timeoutMs} ms`;
          reject(new WorkerError({ failure: 'not started', rank: missing, worldSize, method: 'start', reason }));
        },
        Math.min(timeoutMs, 2 ** 31 - 1),
      );
    });
    try {
      await Promise.race([this.allArrived, late, this.failed]);
    } finally {
      clearTimeout(timer);
    }
    const sharedMemoryFolder = this.memory?.folder ?? null;
    await Promise.race([
      Promise.all(
        this.ranks.map((_, rank) => this.run(rank, 'start', [{ ...request, sharedMemoryFolder }], timeoutMs, 'start')),
      ),
      this.failed,
    ]);
    for (const rank of this.ranks) rank.channel!.sharedMemory = this.memory;
    this.lastCheck = Date.now();
    this.monitor = setInterval(() => this.checkHeartbeats(), Math.max(50, this.heartbeatTimeoutMs / 4)).unref();
  }

  call(rank: number, role: string, method: string, args: unknown[], timeoutMs: number): Promise<unknown> {
    return this.run(rank, 'call', [role, method, args], timeoutMs, method);
  }

  request(rank: number, method: string, args: unknown[], timeoutMs: number): Promise<unknown> {
    const channel = this.ranks[rank]?.channel;
    return channel ? channel.request(method, args, { timeoutMs }) : Promise.resolve();
  }

  private async run(
    index: number,
    request: string,
    args: unknown[],
    timeoutMs: number,
    method: string,
  ): Promise<unknown> {
    const { worldSize } = this.options;
    const rank = this.ranks[index]!;
    rank.running = method;
    try {
      return await rank.channel!.request(request, args, { timeoutMs });
    } catch (error) {
      // The person's to mend, not the rank's: without a stack.
      if (error instanceof RemoteError && error.remoteName === 'UserError') throw new UserError(error.remoteMessage);
      if (error instanceof RemoteError)
        throw new WorkerError({
          failure: 'threw',
          rank: index,
          worldSize,
          method,
          reason: error.message,
          workerErrorName: error.remoteName,
          workerStack: error.remoteStack,
          cause: error,
        });
      if (error instanceof DeadlineError) throw this.blame(index, method, timeoutMs);
      if (!rank.channel!.isClosed) throw error;
      await this.endOf(rank);
      throw this.death(index, method);
    } finally {
      rank.running = null;
    }
  }

  /** Of ranks that are all late, the one that is not waiting for the others. */
  private blame(index: number, method: string, timeoutMs: number): WorkerError {
    const late = this.ranks.flatMap((rank, k) => (rank.running === method ? [k] : []));
    const stuck = late.filter((k) => !this.ranks[k]!.waiting);
    const waiting = late.filter((k) => this.ranks[k]!.waiting);
    const others =
      stuck.length > 0 && waiting.length > 0 ? `; rank ${waiting.join(', ')} waits for it in a collective` : '';
    return new WorkerError({
      failure: 'hung',
      rank: stuck.includes(index) ? index : (stuck[0] ?? index),
      worldSize: this.options.worldSize,
      method,
      reason: `no answer within ${timeoutMs} ms${others}; if the call is just slow, raise trainer.worker_timeout`,
    });
  }

  private death(index: number, method: string): WorkerError {
    const { reason, tail } = this.ranks[index]!.end ?? { reason: 'its connection closed', tail: '' };
    return new WorkerError({
      failure: 'died',
      rank: index,
      worldSize: this.options.worldSize,
      method,
      reason,
      workerStack: tail || undefined,
    });
  }

  /** The launcher saw the rank's process end. */
  lost(index: number, reason: string, tail: string): void {
    const rank = this.ranks[index]!;
    rank.end = { reason, tail };
    for (const resolve of this.endWaiters) resolve();
    if (!this.endIsExpected) this.fail(this.death(index, rank.running ?? (rank.channel ? 'no call' : 'start')));
  }

  private async endOf(rank: Rank): Promise<void> {
    if (rank.end) return;
    let notice!: () => void;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, endNoticeMs);
      notice = () => {
        if (!rank.end) return;
        clearTimeout(timer);
        resolve();
      };
      this.endWaiters.add(notice);
    });
    this.endWaiters.delete(notice);
  }

  private checkHeartbeats(): void {
    // When this thread itself was busy, the heartbeats of that time are still unread: silence would be its own.
    const now = Date.now();
    const wasBusy = now - this.lastCheck > this.heartbeatTimeoutMs / 2;
    this.lastCheck = now;
    if (wasBusy) {
      for (const rank of this.ranks) rank.lastSign = now;
      return;
    }
    for (const [index, rank] of this.ranks.entries()) {
      const silence = Date.now() - rank.lastSign;
      if (rank.end || this.endIsExpected || silence < this.heartbeatTimeoutMs) continue;
      rank.end = { reason: `no sign of life for ${silence} ms`, tail: '' };
      this.fail(this.death(index, rank.running ?? 'no call'));
    }
  }

  /** From now on a rank that ends is not news. */
  expectEnd(): void {
    this.endIsExpected = true;
  }

  async close(): Promise<void> {
    clearInterval(this.monitor);
    for (const { channel, lifeline } of this.ranks) {
      channel?.close();
      lifeline?.close();
    }
    await this.listener.close();
    this.memory?.remove();
  }
}
