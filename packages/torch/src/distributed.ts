/**
 * Several processes on one tensor: a store where they meet and process groups over Gloo (CPU) or NCCL (CUDA), both libtorch's own.
 * All ranks of a group must call the same collectives in the same order. Nothing waits without a limit.
 */
import { empty } from './create.js';
import { native as loaded } from './load.js';
import type { Tensor } from './tensor.js';

export type ReduceOperation = 'sum' | 'avg' | 'max' | 'min' | 'product';
export type GroupBackend = 'gloo' | 'nccl';

interface Native {
  hasNccl: boolean;
  storeOpen(host: string, port: number, isServer: boolean, worldSize: number, timeoutMs: number): Promise<unknown>;
  storePort(store: unknown): number;
  storeSet(store: unknown, key: string, value: Uint8Array): Promise<void>;
  storeGet(store: unknown, key: string, timeoutMs: number): Promise<Uint8Array>;
  storeAdd(store: unknown, key: string, amount: number): Promise<number>;
  storeCheck(store: unknown, key: string): Promise<boolean>;
  storeDelete(store: unknown, key: string): Promise<boolean>;
  storeClose(store: unknown): Promise<void>;
  groupOpen(
    store: unknown,
    prefix: string,
    backend: string,
    rank: number,
    worldSize: number,
    timeoutMs: number,
    host: string,
    networkInterface: string,
    device: number,
  ): Promise<unknown>;
  groupClose(group: unknown): Promise<void>;
  allReduce(
    group: unknown,
    tensor: number,
    operation: string,
    timeoutMs: number,
    async: boolean,
  ): Promise<void> | undefined;
  allGather(
    group: unknown,
    output: number,
    input: number,
    timeoutMs: number,
    async: boolean,
  ): Promise<void> | undefined;
  reduceScatter(
    group: unknown,
    output: number,
    input: number,
    operation: string,
    timeoutMs: number,
    async: boolean,
  ): Promise<void> | undefined;
  broadcast(
    group: unknown,
    tensor: number,
    source: number,
    timeoutMs: number,
    async: boolean,
  ): Promise<void> | undefined;
  barrier(group: unknown, timeoutMs: number, async: boolean): Promise<void> | undefined;
}

const native = loaded as unknown as Native;

/** A collective or a meeting that failed; `reason` says whether someone was late, gone, or something else went wrong. */
export class DistributedError extends Error {
  override readonly name = 'DistributedError';
  /** `timeout`: a peer did not come in time. `peer-lost`: its connection broke. `failed`: anything else. */
  readonly reason: 'timeout' | 'peer-lost' | 'failed';

  constructor(
    readonly operation: string,
    readonly rank: number,
    readonly worldSize: number,
    readonly timeoutMs: number,
    options: { cause: unknown },
  ) {
    const said = options.cause instanceof Error ? options.cause.message : String(options.cause);
    // libtorch appends its C++ stack to some messages.
    const detail = said.split(/\n?Exception raised from/)[0]!.trim();
    const reason = reasonOf(detail);
    const meaning = {
      timeout: `no answer within ${timeoutMs} ms; is a rank late, stuck or gone?`,
      'peer-lost': 'the connection to another rank broke; look at the log of the rank that ended first',
      failed: 'failed',
    }[reason];
    super(`${operation} on rank ${rank} of ${worldSize}: ${meaning}\n${detail}`, options);
    this.reason = reason;
  }
}

function reasonOf(detail: string): DistributedError['reason'] {
  if (/tim(ed|e) ?out|timeout/i.test(detail)) return 'timeout';
  if (/connection|socket|broken pipe|closed by peer|peer (is )?gone|recv.*failed/i.test(detail)) return 'peer-lost';
  return 'failed';
}

const defaultTimeoutMs = 5 * 60_000;

export interface TcpStoreOptions {
  host: string;
  /** 0 lets the server choose a free port; read it from `port` afterwards. */
  port: number;
  /** Exactly one process serves; it must outlive the others' use of the store. */
  isServer?: boolean;
  /** With it, opening waits until so many processes have joined. */
  worldSize?: number;
  timeoutMs?: number;
}

/** A small shared dictionary over TCP: where processes find each other. */
export class TcpStore {
  private constructor(
    /** @internal */
    readonly handle: unknown,
    readonly host: string,
    readonly timeoutMs: number,
  ) {}

  static async open(options: TcpStoreOptions): Promise<TcpStore> {
    const { host, port, isServer = false, worldSize = 0, timeoutMs = defaultTimeoutMs } = options;
    try {
      return new TcpStore(await native.storeOpen(host, port, isServer, worldSize, timeoutMs), host, timeoutMs);
    } catch (error) {
      const operation = isServer ? `serving the store at ${host}:${port}` : `joining the store at ${host}:${port}`;
      throw new DistributedError(operation, isServer ? 0 : -1, worldSize, timeoutMs, { cause: error });
    }
  }

  get port(): number {
    return native.storePort(this.handle);
  }

  set(key: string, value: string | Uint8Array): Promise<void> {
    return this.named(`set '${key}'`, () =>
      native.storeSet(this.handle, key, typeof value === 'string' ? new TextEncoder().encode(value) : value),
    );
  }

  /** The value under a key, waiting until someone has set it. */
  get(key: string, options: { timeoutMs?: number } = {}): Promise<Uint8Array> {
    const timeoutMs = options.timeoutMs ?? this.timeoutMs;
    return this.named(`get '${key}'`, () => native.storeGet(this.handle, key, timeoutMs), timeoutMs);
  }

  async getText(key: string, options: { timeoutMs?: number } = {}): Promise<string> {
    return new TextDecoder().decode(await this.get(key, options));
  }

  /** Adds to a counter that starts at 0 and gives its new value. */
  add(key: string, amount: number): Promise<number> {
    return this.named(`add '${key}'`, () => native.storeAdd(this.handle, key, amount));
  }

  has(key: string): Promise<boolean> {
    return this.named(`has '${key}'`, () => native.storeCheck(this.handle, key));
  }

  delete(key: string): Promise<boolean> {
    return this.named(`delete '${key}'`, () => native.storeDelete(this.handle, key));
  }

  close(): Promise<void> {
    return native.storeClose(this.handle);
  }

  private async named<T>(operation: string, body: () => Promise<T>, timeoutMs = this.timeoutMs): Promise<T> {
    try {
      return await body();
    } catch (error) {
      throw new DistributedError(`store ${operation}`, -1, 0, timeoutMs, { cause: error });
    }
  }
}

export interface ProcessGroupOptions {
  rank: number;
  worldSize: number;
  backend?: GroupBackend;
  /** The limit for meeting and for each collective. */
  timeoutMs?: number;
  /** Groups over one store need different names. */
  name?: string;
  /** Gloo: the address or name of this machine that the others can reach. Else the machine's own idea of its name. */
  host?: string;
  /** Gloo: a network interface instead, such as `eth0`. */
  networkInterface?: string;
  /** NCCL: the index of this rank's CUDA device. */
  device?: number;
}

export interface CollectiveOptions {
  timeoutMs?: number;
}

/**
 * Ranks that reduce and exchange tensors. The plain methods give a promise and let the event loop go on; tensors they return
 * belong to no scope. The `Sync` ones block, and on NCCL only order the streams.
 *
 * @example
 * const store = await TcpStore.open({ host: '127.0.0.1', port: 29500, isServer: rank === 0, worldSize });
 * const group = await ProcessGroup.open(store, { rank, worldSize, host: '127.0.0.1' });
 * await group.allReduce(gradient, 'avg');
 */
export class ProcessGroup {
  private constructor(
    private readonly handle: unknown,
    readonly backend: GroupBackend,
    readonly rank: number,
    readonly worldSize: number,
    readonly timeoutMs: number,
  ) {}

  static async open(store: TcpStore, options: ProcessGroupOptions): Promise<ProcessGroup> {
    const { rank, worldSize, backend = 'gloo', timeoutMs = defaultTimeoutMs, name = 'default' } = options;
    if (!(Number.isInteger(rank) && rank >= 0 && rank < worldSize))
      throw new RangeError(`rank ${rank} is not one of ${worldSize} ranks`);
    if (backend === 'nccl' && !native.hasNccl)
      throw new Error(
        'this build has no NCCL: it needs a CUDA libtorch and the headers of CUDA and NCCL (npx verlet-torch shows what was found)',
      );
    try {
      const handle = await native.groupOpen(
        store.handle,
        `${name}/`,
        backend,
        rank,
        worldSize,
        timeoutMs,
        options.host ?? '',
        options.networkInterface ?? '',
        options.device ?? 0,
      );
      return new ProcessGroup(handle, backend, rank, worldSize, timeoutMs);
    } catch (error) {
      throw new DistributedError(`opening the ${backend} group '${name}'`, rank, worldSize, timeoutMs, {
        cause: error,
      });
    }
  }

  /** Reduces over all ranks, in place. */
  async allReduce(
    tensor: Tensor,
    operation: ReduceOperation = 'sum',
    options: CollectiveOptions = {},
  ): Promise<Tensor> {
    await this.waitFor('allReduce', options, (limit) =>
      native.allReduce(this.handle, tensor.handle, operation, limit, true),
    );
    return tensor;
  }

  allReduceSync(tensor: Tensor, operation: ReduceOperation = 'sum', options: CollectiveOptions = {}): Tensor {
    this.block('allReduce', options, (limit) => native.allReduce(this.handle, tensor.handle, operation, limit, false));
    return tensor;
  }

  /** The ranks' tensors, all of one shape, one behind the other along the first dimension. */
  async allGather(tensor: Tensor, options: CollectiveOptions = {}): Promise<Tensor> {
    const output = this.gatherOutput(tensor).keep();
    await this.waitFor(
      'allGather',
      options,
      (limit) => native.allGather(this.handle, output.handle, tensor.handle, limit, true),
      output,
    );
    return output;
  }

  allGatherSync(tensor: Tensor, options: CollectiveOptions = {}): Tensor {
    const output = this.gatherOutput(tensor);
    this.block(
      'allGather',
      options,
      (limit) => native.allGather(this.handle, output.handle, tensor.handle, limit, false),
      output,
    );
    return output;
  }

  /** Reduces over all ranks and leaves each with its part of the first dimension, which the number of ranks must divide. */
  async reduceScatter(
    tensor: Tensor,
    operation: ReduceOperation = 'sum',
    options: CollectiveOptions = {},
  ): Promise<Tensor> {
    const output = this.scatterOutput(tensor).keep();
    await this.waitFor(
      'reduceScatter',
      options,
      (limit) => native.reduceScatter(this.handle, output.handle, tensor.handle, operation, limit, true),
      output,
    );
    return output;
  }

  reduceScatterSync(tensor: Tensor, operation: ReduceOperation = 'sum', options: CollectiveOptions = {}): Tensor {
    const output = this.scatterOutput(tensor);
    this.block(
      'reduceScatter',
      options,
      (limit) => native.reduceScatter(this.handle, output.handle, tensor.handle, operation, limit, false),
      output,
    );
    return output;
  }

  /** Gives the source rank's values to all, in place. */
  async broadcast(tensor: Tensor, source = 0, options: CollectiveOptions = {}): Promise<Tensor> {
    this.checkSource(source);
    await this.waitFor('broadcast', options, (limit) =>
      native.broadcast(this.handle, tensor.handle, source, limit, true),
    );
    return tensor;
  }

  broadcastSync(tensor: Tensor, source = 0, options: CollectiveOptions = {}): Tensor {
    this.checkSource(source);
    this.block('broadcast', options, (limit) => native.broadcast(this.handle, tensor.handle, source, limit, false));
    return tensor;
  }

  /** Returns when every rank has called it. */
  async barrier(options: CollectiveOptions = {}): Promise<void> {
    await this.waitFor('barrier', options, (limit) => native.barrier(this.handle, limit, true));
  }

  barrierSync(options: CollectiveOptions = {}): void {
    this.block('barrier', options, (limit) => native.barrier(this.handle, limit, false));
  }

  /** Leaves the group. Call it when all ranks are done (after a barrier), or the others see a lost peer. */
  close(): Promise<void> {
    return native.groupClose(this.handle);
  }

  private async waitFor(
    operation: string,
    options: CollectiveOptions,
    issue: (timeoutMs: number) => Promise<void> | undefined,
    output?: Tensor,
  ): Promise<void> {
    const limit = options.timeoutMs ?? this.timeoutMs;
    try {
      await issue(limit);
    } catch (error) {
      output?.dispose();
      throw new DistributedError(operation, this.rank, this.worldSize, limit, { cause: error });
    }
  }

  private block(
    operation: string,
    options: CollectiveOptions,
    issue: (timeoutMs: number) => unknown,
    output?: Tensor,
  ): void {
    const limit = options.timeoutMs ?? this.timeoutMs;
    try {
      issue(limit);
    } catch (error) {
      output?.dispose();
      throw new DistributedError(operation, this.rank, this.worldSize, limit, { cause: error });
    }
  }

  private gatherOutput(tensor: Tensor): Tensor {
    const [first = 1, ...rest] = tensor.shape;
    return empty([first * this.worldSize, ...rest], { dtype: tensor.dtype, device: tensor.device });
  }

  private scatterOutput(tensor: Tensor): Tensor {
    const [first, ...rest] = tensor.shape;
    if (first === undefined || first % this.worldSize !== 0)
      throw new RangeError(
        `reduceScatter: ${this.worldSize} ranks do not divide the first dimension of [${tensor.shape}]`,
      );
    return empty([first / this.worldSize, ...rest], { dtype: tensor.dtype, device: tensor.device });
  }

  private checkSource(source: number): void {
    if (!(Number.isInteger(source) && source >= 0 && source < this.worldSize))
      throw new RangeError(`broadcast: source ${source} is not one of ${this.worldSize} ranks`);
  }
}

/** Which backends this build has. */
export function groupBackends(): GroupBackend[] {
  return native.hasNccl ? ['gloo', 'nccl'] : ['gloo'];
}
