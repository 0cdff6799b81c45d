/** What launchers of other processes share: the program of a rank, what it is told, and its ranks as a set. */
import { fileURLToPath } from 'node:url';
import type { RankServer } from './rank-server.js';
import type { LaunchOptions, RankSet, RoleSpec } from './types.js';

const inSource = import.meta.url.endsWith('.ts');
const entry = fileURLToPath(new URL(inSource ? './rank-entry.ts' : './rank-entry.js', import.meta.url));

/** Arguments of `node` for a rank. TypeScript modules, of users or of this package in its own tests, need a loader. */
export function rankArguments(roles: readonly RoleSpec[]): string[] {
  const needsLoader = inSource || roles.some(({ workerClass }) => /\.[cm]?tsx?$/.test(workerClass.source.module));
  return [...(needsLoader ? ['--import', import.meta.resolve('tsx')] : []), entry];
}

/** The environment that every rank has, whoever starts it. */
export function rankEnvironment(
  rank: number,
  options: LaunchOptions,
  at: { server: RankServer; host: string; port: number; heartbeatMs: number },
): Record<string, string> {
  return {
    ...options.env,
    RANK: String(rank),
    WORLD_SIZE: String(options.worldSize),
    MASTER_ADDR: at.host,
    MASTER_PORT: String(at.port),
    VERLET_CONTROLLER: at.server.address,
    VERLET_TOKEN: at.server.token,
    VERLET_HEARTBEAT_MS: String(at.heartbeatMs),
  };
}

export function refuseCode(roles: readonly RoleSpec[]): void {
  for (const { role, extensions } of roles)
    for (const [name, value] of Object.entries(extensions ?? {}))
      if (value !== undefined)
        throw new Error(
          `${role}: '${name}' is code of this process and cannot go to a rank; name its module by path in the configuration, or use trainer.launcher=inline`,
        );
}

/** Has the ranks that are coming build their workers. `kill` ends them all, whatever they do. */
export async function startRanks(
  server: RankServer,
  roles: readonly RoleSpec[],
  options: LaunchOptions,
  kill: () => Promise<void>,
): Promise<RankSet> {
  const { worldSize, device, timeoutMs } = options;
  try {
    await server.start({
      roles: roles.map(({ role, workerClass, config }) => ({ role, source: workerClass.source, config })),
      // Each rank sees its own GPU only.
      device: device === 'cuda' ? 'cuda:0' : device,
      backend: device.startsWith('cuda') ? 'nccl' : 'gloo',
      // Later than the deadline of a call, so that the call says who is stuck.
      collectiveTimeoutMs: timeoutMs + 10_000,
    });
  } catch (error) {
    await kill();
    throw error;
  }
  return {
    worldSize,
    sharesObjects: false,
    failed: server.failed,
    call: (rank, role, method, args, limit) => server.call(rank, role, method, args, limit),
    async close() {
      server.expectEnd();
      const grace = Math.min(timeoutMs, 30_000);
      await Promise.allSettled(
        Array.from({ length: worldSize }, (_, rank) => server.request(rank, 'close', [], grace)),
      );
      await kill();
    },
    kill,
  };
}
