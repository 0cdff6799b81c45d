/** What a launcher gives the groups: ranks that can be called. */
import type { WorkerClass, WorkerSource } from '../../workers/register.js';

/** One role on every rank; several roles share the processes and the collectives. */
export interface RoleSpec {
  role: string;
  // biome-ignore lint/suspicious/noExplicitAny: classes with any configuration
  workerClass: WorkerClass<any, any>;
  config: unknown;
  extensions?: object;
}

/** The same as plain data, for another process. */
export interface PlainRoleSpec {
  role: string;
  source: WorkerSource;
  config: unknown;
}

export interface LaunchOptions {
  worldSize: number;
  /** Device of each rank; `cuda` gives rank k its own GPU. */
  device: string;
  /** For starting, and for every collective among the ranks. */
  timeoutMs: number;
  /** Bulk data by shared-memory file where it pays. */
  sharedMemory?: boolean;
  env?: Record<string, string>;
}

export interface RankSet {
  readonly worldSize: number;
  /** Runs `role`'s method on a rank. Rejects with a WorkerError. */
  call(rank: number, role: string, method: string, args: unknown[], timeoutMs: number): Promise<unknown>;
  /** True when results and arguments are the same objects on both sides. */
  readonly sharesObjects: boolean;
  /** Rejects when a rank dies between calls. */
  readonly failed: Promise<never>;
  /** Lets workers finish. */
  close(): Promise<void>;
  /** Ends everything now. */
  kill(): Promise<void>;
}

export interface Launcher {
  readonly name: string;
  launch(roles: readonly RoleSpec[], options: LaunchOptions): Promise<RankSet>;
}
