/** From worker classes to groups that can be called. */

import type { WorkerClass } from '../workers/register.js';
import { inlineLauncher } from './launchers/inline.js';
import { processLauncher } from './launchers/process.js';
import type { Launcher, RoleSpec } from './launchers/types.js';
import { bindGroup, type CallObserver, Ranks, type WorkerGroup } from './worker-group.js';

export interface GroupOptions {
  /** `auto` is inline for one rank and one process per rank otherwise. */
  launcher?: 'auto' | 'inline' | 'process' | Launcher;
  worldSize?: number;
  /** `cpu`, `cuda` (rank k on the k-th visible GPU), or one device for all. */
  device?: string;
  /** The limit of every call that has none of its own (`trainer.worker_timeout`). */
  timeoutSeconds?: number;
  sharedMemory?: boolean;
  env?: Record<string, string>;
  /** Watches the calls to each rank, for a timeline. */
  onCall?: CallObserver;
}

// biome-ignore lint/suspicious/noExplicitAny: classes with any configuration
type AnyWorkerClass = WorkerClass<any, any>;

type ConfigOf<C> = C extends new (config: infer Config, ...rest: never[]) => unknown ? Config : never;
type ExtensionsOf<C> = C extends new (config: never, context: never, extensions?: infer E) => unknown ? E : never;

/** One role of a set of processes: the class and what its constructor gets. */
export interface RoleOf<C> {
  workerClass: C;
  config: ConfigOf<C>;
  extensions?: ExtensionsOf<C>;
}

type Roles = Record<string, RoleOf<AnyWorkerClass>>;

function launcherOf(options: GroupOptions): Launcher {
  const { launcher = 'auto', worldSize = 1 } = options;
  if (typeof launcher !== 'string') return launcher;
  if (launcher === 'inline' || (launcher === 'auto' && worldSize === 1)) return inlineLauncher;
  return processLauncher();
}

/**
 * Several roles in the same processes: each rank has one worker of each, with one context. Returns one group per role; closing
 * any of them closes all.
 *
 * @example
 * const { actor, critic } = await createColocatedWorkers(
 *   { actor: { workerClass: ActorRolloutRefWorker, config }, critic: { workerClass: CriticWorker, config } },
 *   { launcher: 'process', worldSize: 2, device: 'cpu', timeoutSeconds: config.trainer.worker_timeout },
 * );
 */
export async function createColocatedWorkers<R extends Roles>(
  roles: R,
  options: GroupOptions = {},
): Promise<{ [K in keyof R]: WorkerGroup<R[K]['workerClass']> }> {
  const timeoutMs = (options.timeoutSeconds ?? 1800) * 1000;
  const specs = Object.entries(roles).map(([role, spec]): RoleSpec => ({ role, ...spec }) as RoleSpec);
  const set = await launcherOf(options).launch(specs, {
    worldSize: options.worldSize ?? 1,
    device: options.device ?? 'cpu',
    timeoutMs,
    sharedMemory: options.sharedMemory,
    env: options.env,
  });
  const ranks = new Ranks(set, options.onCall);
  return Object.fromEntries(
    specs.map(({ role, workerClass }) => [role, bindGroup(workerClass, role, ranks, timeoutMs)]),
  ) as { [K in keyof R]: WorkerGroup<R[K]['workerClass']> };
}

/** One role on ranks of its own. */
export async function launchGroup<C extends AnyWorkerClass>(
  workerClass: C,
  options: GroupOptions & { config: ConfigOf<C>; extensions?: ExtensionsOf<C>; role?: string },
): Promise<WorkerGroup<C>> {
  const { config, extensions, role = workerClass.name, ...rest } = options;
  const groups = await createColocatedWorkers({ [role]: { workerClass, config, extensions } } as Roles, rest);
  return groups[role] as unknown as WorkerGroup<C>;
}
