/**
 * One child process per rank on this machine. Ranks dial back over a unix socket, meet each other over c10d, and end with the
 * controller: by its word, or because their lifeline closes.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import type { Socket } from 'node:net';
import { availableParallelism } from 'node:os';
import { createInterface } from 'node:readline';
import { TcpStore } from '@verlet/torch';
import { RankServer } from './rank-server.js';
import { rankArguments, rankEnvironment, refuseCode, startRanks } from './remote.js';
import type { Launcher, LaunchOptions, RankSet, RoleSpec } from './types.js';

export interface ProcessLauncherOptions {
  /** A rank that sends no sign of life for so long is taken for dead. */
  heartbeatTimeoutMs?: number;
  heartbeatMs?: number;
  /** Where the ranks' output goes, line by line. */
  onOutput?: (rank: number, line: string) => void;
}

const host = '127.0.0.1';
const tailLines = 20;
const lastLinesMs = 500;

/** Threads and GPUs of this machine, divided among the ranks. */
function shareOf(rank: number, { worldSize, device }: LaunchOptions): Record<string, string> {
  const threads = Number(process.env.OMP_NUM_THREADS) || availableParallelism();
  const visible = process.env.CUDA_VISIBLE_DEVICES?.split(',').filter(Boolean);
  if (device === 'cuda' && visible && visible.length < worldSize)
    throw new Error(`${worldSize} ranks want a GPU each; CUDA_VISIBLE_DEVICES names ${visible.length}`);
  return {
    LOCAL_RANK: String(rank),
    LOCAL_WORLD_SIZE: String(worldSize),
    OMP_NUM_THREADS: String(Math.max(1, Math.floor(threads / worldSize))),
    ...(device === 'cuda' ? { CUDA_VISIBLE_DEVICES: visible?.[rank] ?? String(rank) } : {}),
  };
}

export function processLauncher(settings: ProcessLauncherOptions = {}): Launcher {
  const { heartbeatMs = 1000, heartbeatTimeoutMs = 60_000 } = settings;
  const onOutput = settings.onOutput ?? ((rank, line) => process.stderr.write(`[rank ${rank}] ${line}\n`));
  return {
    name: 'process',
    async launch(roles: readonly RoleSpec[], options: LaunchOptions): Promise<RankSet> {
      refuseCode(roles);
      const { worldSize } = options;
      const store =
        worldSize > 1 ? await TcpStore.open({ host, port: 0, isServer: true, timeoutMs: options.timeoutMs }) : null;
      const server = await RankServer.open(options, { heartbeatTimeoutMs });
      const children: ChildProcess[] = [];
      const tails = Array.from({ length: worldSize }, () => [] as string[]);
      const exits: Promise<void>[] = [];

      const startChild = (rank: number): void => {
        const at = { server, host, port: store?.port ?? 0, heartbeatMs };
        const child = spawn(process.execPath, rankArguments(roles), {
          env: { ...process.env, ...rankEnvironment(rank, options, at), ...shareOf(rank, options) },
          stdio: ['ignore', 'pipe', 'pipe'],
        });
        children.push(child);
        child.unref();
        for (const stream of [child.stdout as Socket, child.stderr as Socket]) {
          stream.unref();
          createInterface({ input: stream }).on('line', (line) => {
            tails[rank]!.push(line);
            if (tails[rank]!.length > tailLines) tails[rank]!.shift();
            onOutput(rank, line);
          });
        }
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
        for (const child of children) {
          child.ref();
          if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL');
        }
        await Promise.all(exits);
        await server.close();
        await store?.close();
      };

      try {
        for (let rank = 0; rank < worldSize; rank++) startChild(rank);
      } catch (error) {
        await kill();
        throw error;
      }
      return startRanks(server, roles, options, kill);
    },
  };
}
