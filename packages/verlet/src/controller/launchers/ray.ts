/**
 * Ranks on a Ray cluster. Ray places and starts them; everything else is as with children of this process: ranks dial back to
 * the controller over TCP, meet over c10d, and end with their lifeline. Node and this package must be on every machine under
 * the same paths.
 */
import { spawn } from 'node:child_process';
import { networkInterfaces } from 'node:os';
import { createInterface } from 'node:readline';
import { TcpStore } from '@verlet/torch';
import { RankServer } from './rank-server.js';
import { rayScript } from './ray-script.js';
import { rankArguments, rankEnvironment, refuseCode, startRanks } from './remote.js';
import type { Launcher, LaunchOptions, RankSet, RoleSpec } from './types.js';

export interface RayLauncherOptions {
  /** A cluster to join, such as `auto` or `host:6379`; without one a local Ray is started and ended with the run. */
  address?: string | null;
  /** CPUs of a local Ray. */
  numCpus?: number | null;
  cpusPerRank?: number;
  runtimeEnv?: Record<string, unknown>;
  /** The name under which other machines reach this one. */
  host?: string;
  /** The interpreter that has Ray; `VERLET_PYTHON`, else `python3`. */
  python?: string;
  heartbeatMs?: number;
  heartbeatTimeoutMs?: number;
}

interface RayEvent {
  event: 'ended' | 'failed';
  rank?: number;
  reason: string;
  tail?: string[];
}

/** This machine's address for others; loopback where all ranks are here. */
function ownAddress(address: string | null | undefined): string {
  if (!address) return '127.0.0.1';
  const outward = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
  return outward.find((one) => one.family === 'IPv4' && !one.internal)?.address ?? '127.0.0.1';
}

export function rayLauncher(settings: RayLauncherOptions = {}): Launcher {
  const { heartbeatMs = 1000, heartbeatTimeoutMs = 60_000, cpusPerRank = 1 } = settings;
  const python = settings.python ?? process.env.VERLET_PYTHON ?? 'python3';
  return {
    name: 'ray',
    async launch(roles: readonly RoleSpec[], options: LaunchOptions): Promise<RankSet> {
      refuseCode(roles);
      const { worldSize, timeoutMs } = options;
      const host = settings.host ?? ownAddress(settings.address);
      const store = worldSize > 1 ? await TcpStore.open({ host, port: 0, isServer: true, timeoutMs }) : null;
      const server = await RankServer.open(options, { heartbeatTimeoutMs, at: { kind: 'tcp', host } });
      const at = { server, host, port: store?.port ?? 0, heartbeatMs };
      const environments = Array.from({ length: worldSize }, (_, rank) => ({
        ...rankEnvironment(rank, options, at),
        OMP_NUM_THREADS: String(cpusPerRank),
      }));
      const ray = spawn(python, ['-c', rayScript], { stdio: ['pipe', 'pipe', 'pipe'] });
      let log = '';
      ray.stderr.on('data', (chunk: Buffer) => {
        log = (log + chunk.toString()).slice(-4000);
      });
      const failAll = (reason: string): void => {
        for (let rank = 0; rank < worldSize; rank++) server.lost(rank, reason, log);
      };
      createInterface({ input: ray.stdout }).on('line', (line) => {
        const event = parseEvent(line);
        if (event?.event === 'ended') server.lost(event.rank!, event.reason, (event.tail ?? []).join('\n'));
        else if (event?.event === 'failed') failAll(`Ray: ${event.reason}`);
      });
      const ended = new Promise<void>((resolve) => {
        ray.once('error', (error) => {
          failAll(`${python} cannot be started: ${error.message}; set VERLET_PYTHON to a Python that has Ray`);
          resolve();
        });
        ray.once('exit', (code, signal) => {
          failAll(`Ray's launcher ended (${signal ?? `code ${code}`})`);
          resolve();
        });
      });
      ray.stdin.on('error', () => {});
      const job = {
        address: settings.address ?? null,
        numCpus: settings.numCpus ?? null,
        runtimeEnv: settings.runtimeEnv ?? {},
        worldSize,
        cpusPerRank,
        gpus: options.device.startsWith('cuda'),
        timeoutSeconds: timeoutMs / 1000,
        command: [process.execPath, ...rankArguments(roles)],
        environments,
      };
      ray.stdin.write(`${JSON.stringify(job)}\n`);

      let ending: Promise<void> | null = null;
      const end = async (): Promise<void> => {
        server.expectEnd();
        // Closed lifelines end the ranks even where Ray cannot.
        await server.close();
        ray.stdin.end();
        const timer = setTimeout(() => ray.kill('SIGKILL'), 20_000);
        await ended;
        clearTimeout(timer);
        await store?.close();
      };
      const kill = (): Promise<void> => {
        ending ??= end();
        return ending;
      };
      return startRanks(server, roles, options, kill);
    },
  };
}

function parseEvent(line: string): RayEvent | null {
  try {
    return JSON.parse(line) as RayEvent;
  } catch {
    // Ray writes lines of its own.
    return null;
  }
}
