/** Which processes exist on which machines, and which roles live in them. */

/** What a process can be. Several roles may share one process. */
export const Role = {
  Actor: 'actor',
  Rollout: 'rollout',
  ActorRollout: 'actor_rollout',
  Critic: 'critic',
  RefPolicy: 'ref',
  RewardModel: 'rm',
  ActorRolloutRef: 'actor_rollout_ref',
  Env: 'env',
} as const;
export type Role = (typeof Role)[keyof typeof Role];

export class ResourceError extends Error {
  override readonly name = 'ResourceError';
}

export class ResourcePool {
  constructor(
    /** Processes on each machine. */
    readonly processOnNodes: readonly number[],
    readonly maxColocateCount = 10,
    readonly nGpusPerNode = 8,
  ) {
    if (processOnNodes.length === 0 || processOnNodes.some((count) => !(Number.isInteger(count) && count > 0)))
      throw new ResourceError(`a pool wants a positive number of processes per machine, got [${processOnNodes}]`);
  }

  get worldSize(): number {
    return this.processOnNodes.reduce((sum, count) => sum + count, 0);
  }

  get localWorldSizes(): number[] {
    return this.processOnNodes.flatMap((count) => new Array<number>(count).fill(count));
  }

  get localRanks(): number[] {
    return this.processOnNodes.flatMap((count) => Array.from({ length: count }, (_, rank) => rank));
  }
}

export class ResourcePoolManager {
  private readonly pools = new Map<string, ResourcePool>();

  constructor(
    /** Pool name to processes per machine. */
    readonly resourcePoolSpec: Readonly<Record<string, readonly number[]>>,
    /** Role to pool name. */
    readonly mapping: Readonly<Partial<Record<Role, string>>>,
  ) {
    for (const [name, processes] of Object.entries(resourcePoolSpec))
      this.pools.set(name, new ResourcePool(processes, 3));
    for (const [role, name] of Object.entries(mapping))
      if (!this.pools.has(name))
        throw new ResourceError(
          `role ${role} wants the pool '${name}'; there are: ${[...this.pools.keys()].join(', ')}`,
        );
  }

  getResourcePool(role: Role): ResourcePool {
    const name = this.mapping[role];
    const pool = name === undefined ? undefined : this.pools.get(name);
    if (!pool) throw new ResourceError(`role ${role} has no pool`);
    return pool;
  }

  /** Roles by the pool they share: they live in one process per rank. */
  colocated(): Map<string, Role[]> {
    const byPool = new Map<string, Role[]>();
    for (const [role, name] of Object.entries(this.mapping)) {
      const roles = byPool.get(name) ?? [];
      roles.push(role as Role);
      byPool.set(name, roles);
    }
    for (const [name, roles] of byPool)
      if (roles.length > this.pools.get(name)!.maxColocateCount)
        throw new ResourceError(
          `${roles.length} roles in pool '${name}', which takes ${this.pools.get(name)!.maxColocateCount}`,
        );
    return byPool;
  }

  get nGpus(): number {
    return [...this.pools.values()].reduce((sum, pool) => sum + pool.worldSize, 0);
  }

  checkResourceAvailable(available: number): void {
    if (available < this.nGpus)
      throw new ResourceError(`the configuration asks for ${this.nGpus} devices, the machine has ${available}`);
  }
}
