/**
 * One child process per rank on this machine. Ranks dial back over a unix socket, meet each other over c10d, and end with the
 * controller: by its word, or because their lifeline closes.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { TcpStore } from '@verlet/torch';
import { RankServer } from './rank-server.js';
import type { Launcher, LaunchOptions, RankSet, RoleSpec } from './types.js';

export interface ProcessLauncherOptions {
  /** A rank that sends no sign of life for so long is taken for dead. */
  heartbeatTimeoutMs?: number;
  heartbeatMs?: number;
  /** Where the ranks' output goes, line by line. */
  onOutput?: (rank: number, line: string) => void;
}

const inSource = import.meta.url.endsWith('.ts');
const entry = fileURLToPath(new URL(inSource ? './rank-entry.ts' : './rank-entry.js', import.meta.url));
const tailLines = 20;
const lastLinesMs = 500;

/** TypeScript modules, of users or of this package in its own tests, need a loader in the child. */
function loaderArguments(roles: readonly RoleSpec[]): string[] {
  const needed = inSource || roles.some(({ workerClass }) => /\.[cm]?tsx?$/.test(workerClass.source.module));
  return needed ? ['--import', import.meta.resolve('tsx')] : [];
}

function environment(rank: number, options: LaunchOptions, server: RankServer, port: number): NodeJS.ProcessEnv {
  const { worldSize, device, env } = options;
  const threads = Number(process.env.OMP_NUM_THREADS) || availableParallelism();
  const visible = process.env.CUDA_VISIBLE_DEVICES?.split(',').filter(Boolean);
  if (device === 'cuda' && visible && visible.length < worldSize)
    throw new Error(`${worldSize} ranks want a GPU each; CUDA_VISIBLE_DEVICES names ${visible.length}`);
  return {
    ...process.env,
    ...env,
    RANK: String(rank),
    WORLD_SIZE: String(worldSize),
    LOCAL_RANK: String(rank),
    LOCAL_WORLD_SIZE: String(worldSize),
    MASTER_ADDR: '127.0.0.1',
    MASTER_PORT: String(port),
    OMP_NUM_THREADS: String(Math.max(1, Math.floor(threads / worldSize))),
    ...(device === 'cuda' ? { CUDA_VISIBLE_DEVICES: visible?.[rank] ?? String(rank) } : {}),
    VERLET_CONTROLLER: server.address,
    VERLET_TOKEN: server.token,
  };
}

export function processLauncher(settings: ProcessLauncherOptions = {}): Launcher {
  const { heartbeatMs = 1000, heartbeatTimeoutMs = 60_000 } = settings;
  const onOutput = settings.onOutput ?? ((rank, line) => process.stderr.write(`[rank ${rank}] ${line}\n`));
  return {
    name: 'process',
    async launch(roles: readonly RoleSpec[], options: LaunchOptions): Promise<RankSet> {
      for (const { role, extensions } of roles)
        for (const [name, value] of Object.entries(extensions ?? {}))
          if (value !== undefined)
            throw new Error(
              `${role}: '${name}' is code of this process and cannot go to a rank; name its module by path in the configuration, or use trainer.launcher=inline`,
            );
      const { worldSize } = options;
      const store =
        worldSize > 1
          ? await TcpStore.open({ host: '127.0.0.1', port: 0, isServer: true, timeoutMs: options.timeoutMs })
          : null;
      const server = await RankServer.open(options, { heartbeatTimeoutMs });
      const children: ChildProcess[] = [];
      const tails = Array.from({ length: worldSize }, () => [] as string[]);
      const exits: Promise<void>[] = [];

      const startChild = (rank: number): void => {
        const child = spawn(process.execPath, [...loaderArguments(roles), entry], {
          env: {
            ...environment(rank, options, server, store?.port ?? 0),
            VERLET_HEARTBEAT_MS: String(heartbeatMs),
          },
          stdio: ['ignore', 'pipe', 'pipe'],
        });
        children.push(child);
        for (const stream of [child.stdout!, child.stderr!])
          createInterface({ input: stream }).on('line', (line) => {
            tails[rank]!.push(line);
            if (tails[rank]!.length > tailLines) tails[rank]!.shift();
            onOutput(rank, line);
          });
        exits.push(
          new Promise((resolve) => {
            child.once('error', (error) => {
              server.lost(rank, `its process cannot be started: ${error.message}`, '');
              resolve();
            });
            child.once('exit', (code, signal) => {
              const hint = signal === 'SIGKILL' ? ' (often: the system ran out of memory)' : '';
              const how = signal ? `was ended by ${signal}${hint}` : `ended with code ${code}`;
              const report = (): void => {
                server.lost(rank, `its process ${child.pid} ${how}`, tails[rank]!.join('\n'));
                resolve();
              };
              // Its last lines may still be on their way; but a process of its own that lives on may hold the pipe.
              const timer = setTimeout(report, lastLinesMs);
              child.once('close', () => {
                clearTimeout(timer);
                report();
              });
            });
          }),
        );
      };

      let ending: Promise<void> | null = null;
      const kill = (): Promise<void> => {
        ending ??= end();
        return ending;
      };
      const end = async (): Promise<void> => {
        server.expectEnd();
        for (const child of children) if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL');
        await Promise.all(exits);
        await server.close();
        await store?.close();
      };

      try {
        for (let rank = 0; rank < worldSize; rank++) startChild(rank);
        await server.start({
          roles: roles.map(({ role, workerClass, config }) => ({ role, source: workerClass.source, config })),
          device: options.device === 'cuda' ? 'cuda:0' : options.device,
          backend: options.device.startsWith('cuda') ? 'nccl' : 'gloo',
          // Later than the deadline of a call, so that the call says who is stuck.
          collectiveTimeoutMs: options.timeoutMs + 10_000,
        });
      } catch (error) {
        await kill();
        throw error;
      }

      return {
        worldSize,
        sharesObjects: false,
        failed: server.failed,
        call: (rank, role, method, args, timeoutMs) => server.call(rank, role, method, args, timeoutMs),
        async close() {
          server.expectEnd();
          const grace = Math.min(options.timeoutMs, 30_000);
          await Promise.allSettled(children.map((_, rank) => server.request(rank, 'close', [], grace)));
          await kill();
        },
        kill,
      };
    },
  };
}
