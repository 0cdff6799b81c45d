/** The distributed form of worker methods, as the type checker sees it. */
import type { DataProto } from '../protocol/index.js';
import type { DispatchMode, MethodTable } from '../workers/register.js';

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
        : D extends 'dp' | 'dp_rows' | 'dp_update'
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
