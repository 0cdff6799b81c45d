/**
 * The single controller: worker methods registered once, groups that call them on every rank, launchers that start the ranks
 * in this process or in children. Collectives between ranks are c10d's; calls and batches go over `transport/`.
 */

export type { WorkerContext } from '../workers/context.js';
export {
  type Dispatched,
  type DispatchMode,
  type DispatchName,
  type MethodOptions,
  type MethodTable,
  register,
  type WorkerClass,
  type WorkerSource,
} from '../workers/register.js';
export { dealRows, rowLengths } from './deal.js';
export { DispatchError, dispatchMode, registerDispatchMode } from './dispatch.js';
export { WorkerError, type WorkerFailure } from './errors.js';
export type { GroupMethods } from './group-methods.js';
export { createColocatedWorkers, type GroupOptions, launchGroup, type RoleOf } from './launch-group.js';
export { inlineLauncher } from './launchers/inline.js';
export { type ProcessLauncherOptions, processLauncher } from './launchers/process.js';
export { type RayLauncherOptions, rayLauncher } from './launchers/ray.js';
export type { Launcher, LaunchOptions, RankSet, RoleSpec } from './launchers/types.js';
export { rankContext } from './rank-context.js';
export { ResourceError, ResourcePool, ResourcePoolManager, Role } from './resource-pool.js';
export type { GroupControl, WorkerGroup } from './worker-group.js';
