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
import type { WorkerContext } from './context.js';

export interface Dispatched {
  /** Arguments per rank; null leaves a rank out. */
  perRank: (unknown[] | null)[];
  /** Made for this call; freed when all ranks have answered. */
  temporary?: DataProto[];
  /** Kept for `collect`. */
  state?: unknown;
}

export interface DispatchMode<GroupArgs extends unknown[] = unknown[], GroupResult = unknown> {
  dispatch(args: GroupArgs, worldSize: number, method: string): Dispatched;
  /** Results of the ranks that were called, by rank. */
  collect(results: unknown[], dispatched: Dispatched, method: string): GroupResult;
}

export type DispatchName = 'one_to_all' | 'all_to_all' | 'rank_zero' | 'dp' | 'dp_rows' | 'dp_update';

export interface MethodOptions {
  /** How arguments go to the ranks and results come back; a name added by `registerDispatchMode`, or a mode itself. */
  // biome-ignore lint/suspicious/noExplicitAny: a table holds modes of any signature
  dispatch: DispatchName | (string & {}) | DispatchMode<any[], any>;
  /** Columns (per-row objects) of the batch that go to other processes; all when not given. */
  columns?: readonly string[];
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
