/**
 * What of a worker its group can call, declared once beside the methods:
 *
 * @example
 * class Scorer {
 *   static readonly methods = register({ load: { dispatch: 'one_to_all' }, score: { dispatch: 'dp' } });
 *   static readonly source = { module: import.meta.url, export: 'Scorer' };
 *   constructor(config: Config, context: WorkerContext) { ... }
 *   async load(folder: string): Promise<void> { ... }
 *   async score(batch: DataProto): Promise<DataProto> { ... }
 * }
 *
 * A table rather than decorators: a decorator cannot change what the type system knows of a method, a table tells it exactly
 * which methods a group has and how they are called, and every tool that strips types can run it.
 */
import type { DataProto } from '../protocol/index.js';
import type { WorkerContext } from '../workers/context.js';
import type { DispatchMode } from './dispatch.js';

export type DispatchName = 'one_to_all' | 'all_to_all' | 'rank_zero' | 'dp' | 'dp_update';

export interface MethodOptions {
  /** How arguments go to the ranks and results come back; a name added by `registerDispatchMode`, or a mode itself. */
  // biome-ignore lint/suspicious/noExplicitAny: a table holds modes of any signature
  dispatch: DispatchName | (string & {}) | DispatchMode<any[], any>;
  /** Seconds instead of the group's limit. */
  timeoutSeconds?: number;
}

export type MethodTable = Readonly<Record<string, MethodOptions>>;

export function register<const T extends MethodTable>(methods: T): T {
  return methods;
}

/** Where another process finds the class. */
export interface WorkerSource {
  /** `import.meta.url` of the class's module. */
  module: string;
  export: string;
}

/** A class whose instances run on ranks. Configuration is plain data; extensions exist only in this process. */
export interface WorkerClass<Config = never, Extensions = never, Worker = object> {
  new (config: Config, context: WorkerContext, extensions?: Extensions): Worker;
  readonly methods: MethodTable;
  readonly source: WorkerSource;
}

// biome-ignore lint/suspicious/noExplicitAny: only `any` matches every argument list
type Method = (...args: any[]) => unknown;

type Each<T extends readonly unknown[]> = { [K in keyof T]: readonly T[K][] };

/** One result per rank; nothing where methods return nothing. */
// biome-ignore lint/suspicious/noConfusingVoidType: it is the return type of methods that is asked for
type PerRank<R> = [R] extends [void] ? undefined : R[];

type Distributed<M extends Method, D> =
  D extends DispatchMode<infer GroupArgs, infer GroupResult>
    ? (...args: GroupArgs) => Promise<GroupResult>
    : D extends 'one_to_all'
      ? (...args: Parameters<M>) => Promise<PerRank<Awaited<ReturnType<M>>>>
      : D extends 'all_to_all'
        ? (...args: Each<Parameters<M>>) => Promise<PerRank<Awaited<ReturnType<M>>>>
        : D extends 'dp' | 'dp_update'
          ? Parameters<M> extends [DataProto, ...unknown[]]
            ? (...args: Parameters<M>) => Promise<Awaited<ReturnType<M>>>
            : never
          : (...args: Parameters<M>) => Promise<Awaited<ReturnType<M>>>;

type WorkerOf<C> = C extends abstract new (...args: never[]) => infer W ? W : never;

/** The registered methods of a class as its group has them. */
export type GroupMethods<C extends { readonly methods: MethodTable }> = {
  [K in keyof C['methods'] & keyof WorkerOf<C>]: WorkerOf<C>[K] extends Method
    ? Distributed<WorkerOf<C>[K], C['methods'][K]['dispatch']>
    : never;
};
