/** A role on all of its ranks, called like one worker. */
import { DataProto } from '../protocol/index.js';
import type { DispatchMode, MethodTable } from '../workers/register.js';
import { dispatchMode } from './dispatch.js';
import { WorkerError } from './errors.js';
import type { GroupMethods } from './group-methods.js';
import type { RankSet } from './launchers/types.js';

export interface GroupControl {
  readonly role: string;
  readonly worldSize: number;
  /** Calls any method of the worker on every rank with the same arguments. */
  executeAll(method: string, ...args: unknown[]): Promise<unknown[]>;
  executeRankZero(method: string, ...args: unknown[]): Promise<unknown>;
  /** Ends the ranks, with those of the groups that share them. */
  close(): Promise<void>;
}

/** The class's registered methods in their distributed form, checked by the compiler, and what every group can do. */
export type WorkerGroup<C extends { readonly methods: MethodTable }> = GroupMethods<C> & GroupControl;

/** Told when a rank is called; what it returns is called when the rank has answered. */
export type CallObserver = (rank: number, role: string, method: string) => () => void;

const causeNoticeMs = 2000;

/** Errors that a rank has because of another: of a broken collective, and of an update that a peer could not compute. */
const consequences: ReadonlySet<string> = new Set(['DistributedError', 'PeerFailedError']);

/** Failure of one rank is the failure of all: nobody knows what the others have done, so they are stopped. */
export class Ranks {
  private failure: Error | null = null;
  private closing: Promise<void> | null = null;

  constructor(
    private readonly set: RankSet,
    private readonly onCall?: CallObserver,
  ) {
    set.failed.catch((error: Error) => this.fail(error));
  }

  get sharesObjects(): boolean {
    return this.set.sharesObjects;
  }

  get worldSize(): number {
    return this.set.worldSize;
  }

  async call(role: string, method: string, perRank: (unknown[] | null)[], timeoutMs: number): Promise<unknown[]> {
    if (this.failure) throw this.failure;
    const calls = perRank.flatMap((args, rank) => {
      if (!args) return [];
      const end = this.onCall?.(rank, role, method);
      const called = this.set.call(rank, role, method, args, timeoutMs);
      if (end) called.then(end, end);
      return [called];
    });
    try {
      return await Promise.race([Promise.all(calls), this.set.failed]);
    } catch (error) {
      await this.fail(await this.rootCause(error as Error, calls));
      throw this.failure;
    }
  }

  /** A rank that lost a peer, or heard of its failure, often reports before the peer itself: wait for that one a moment. */
  private async rootCause(first: Error, calls: readonly Promise<unknown>[]): Promise<Error> {
    const isConsequence = (error: Error): boolean =>
      error instanceof WorkerError && consequences.has(error.workerErrorName ?? '');
    if (!isConsequence(first)) return first;
    return await new Promise<Error>((resolve) => {
      const timer = setTimeout(() => resolve(first), causeNoticeMs);
      const consider = (error: Error): void => {
        if (isConsequence(error)) return;
        clearTimeout(timer);
        resolve(error);
      };
      for (const call of [...calls, this.set.failed]) call.catch(consider);
    });
  }

  private async fail(error: Error): Promise<void> {
    if (this.failure) return;
    this.failure = error;
    await this.set.kill();
  }

  /** Groups that share ranks may all close them. */
  close(): Promise<void> {
    this.closing ??= this.failure ? this.set.kill() : this.set.close();
    return this.closing;
  }
}

/** The batch with the columns that a method wants; null when it may stay as it is. */
function withColumns(batch: unknown, columns: readonly string[] | undefined): DataProto | null {
  if (!columns || !(batch instanceof DataProto)) return null;
  return batch.select({ nonTensorBatchKeys: columns.filter((key) => batch.nonTensorBatch.has(key)) });
}

export function bindGroup<C extends { readonly methods: MethodTable; prototype: object; name: string }>(
  workerClass: C,
  role: string,
  ranks: Ranks,
  timeoutMs: number,
): WorkerGroup<C> {
  const group: Record<string, unknown> & GroupControl = {
    role,
    worldSize: ranks.worldSize,
    executeAll: (method, ...args) =>
      ranks.call(
        role,
        method,
        Array.from({ length: ranks.worldSize }, () => args),
        timeoutMs,
      ),
    executeRankZero: async (method, ...args) => (await ranks.call(role, method, [args], timeoutMs))[0],
    close: () => ranks.close(),
  };
  for (const [method, options] of Object.entries(workerClass.methods)) {
    if (typeof (workerClass.prototype as Record<string, unknown>)[method] !== 'function')
      throw new TypeError(`${workerClass.name} registers '${method}', but has no such method`);
    if (method in group && method !== 'close') throw new TypeError(`'${method}' is a word of every worker group`);
    const mode: DispatchMode = dispatchMode(options.dispatch);
    const limit = options.timeoutSeconds ? options.timeoutSeconds * 1000 : timeoutMs;
    group[method] = async (...args: unknown[]): Promise<unknown> => {
      const lean = ranks.sharesObjects ? null : withColumns(args[0], options.columns);
      const temporary = lean ? [lean] : [];
      try {
        const dispatched = mode.dispatch(lean ? [lean, ...args.slice(1)] : args, ranks.worldSize, method);
        temporary.push(...(dispatched.temporary ?? []));
        const results = await ranks.call(role, method, dispatched.perRank, limit);
        return mode.collect(results, dispatched, method);
      } finally {
        for (const data of temporary) data.dispose();
      }
    };
  }
  return group as unknown as WorkerGroup<C>;
}
