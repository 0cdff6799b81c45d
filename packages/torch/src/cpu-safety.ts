import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { cpus, homedir } from 'node:os';
import path from 'node:path';

/** Which instruction sets libtorch's CPU kernels may use on this machine, and how that was found out. */
export interface CpuSafety {
  /** Environment variables that must be set before libtorch loads; empty when nothing has to be held back. */
  environment: Record<string, string>;
  /** A sentence for a person. */
  reason: string;
}

/** Tried in order until the probe survives. The last rung also keeps ATen's own kernels off AVX-512. */
const LADDER: Record<string, string>[] = [
  {},
  { ONEDNN_MAX_CPU_ISA: 'AVX512_CORE_BF16' },
  { ONEDNN_MAX_CPU_ISA: 'AVX512_CORE' },
  { ONEDNN_MAX_CPU_ISA: 'AVX2', ATEN_CPU_CAPABILITY: 'avx2' },
];

const PROBE_DEADLINE_MS = 120_000;

/**
 * Some virtual machines announce AMX and then kill the process that uses it (SIGILL in a bf16 matmul). A child process runs
 * the kernels in question once per machine and libtorch version; if it dies, oneDNN is told to leave those instructions alone.
 */
export function findCpuSafety(probe: string, libtorchVersion: string): CpuSafety {
  if (process.env.ONEDNN_MAX_CPU_ISA) {
    return {
      environment: {},
      reason: `ONEDNN_MAX_CPU_ISA=${process.env.ONEDNN_MAX_CPU_ISA} is set by hand: not probed`,
    };
  }
  if (process.arch !== 'x64' || !existsSync(probe)) return { environment: {}, reason: 'no probe for this platform' };
  const file = path.join(cacheFolder(), 'cpu', `${processorKey(libtorchVersion)}.json`);
  const known = readResult(file);
  if (known) return known;

  for (const [rung, environment] of LADDER.entries()) {
    const outcome = spawnSync(probe, [], {
      env: { ...process.env, ...environment },
      encoding: 'utf8',
      timeout: PROBE_DEADLINE_MS,
    });
    if (outcome.error) {
      // Not a verdict on the processor (no time, no memory): leave things as they are and ask again next time.
      return { environment: {}, reason: `the probe could not run: ${outcome.error.message}` };
    }
    if (outcome.status === 0) {
      const held = Object.entries(environment).map(([name, value]) => `${name}=${value}`);
      const reason = rung === 0 ? 'all kernels ran' : `kernels died without ${held.join(' ')}`;
      return keepResult(file, { environment, reason });
    }
    if (outcome.signal === null && outcome.status !== 3) {
      const message = outcome.stderr.trim().split('\n').at(-1) ?? '';
      return { environment: {}, reason: `the probe could not run: exit ${outcome.status} ${message}` };
    }
  }
  const last = LADDER.at(-1)!;
  return { environment: last, reason: 'kernels died with every setting: CPU results are not to be trusted' };
}

export function cacheFolder(): string {
  return path.join(process.env.XDG_CACHE_HOME || path.join(homedir(), '.cache'), 'verlet');
}

/** The same image may wake up on another processor, so the flags belong to the key and the host name does not. */
function processorKey(libtorchVersion: string): string {
  const flags = existsSync('/proc/cpuinfo')
    ? (/^flags\s*:.*$/m.exec(readFileSync('/proc/cpuinfo', 'utf8'))?.[0] ?? '')
    : '';
  const parts = [cpus()[0]?.model ?? '', flags, libtorchVersion];
  return createHash('sha256').update(parts.join('\n')).digest('hex').slice(0, 24);
}

function readResult(file: string): CpuSafety | undefined {
  try {
    const result = JSON.parse(readFileSync(file, 'utf8')) as Partial<CpuSafety>;
    if (typeof result.reason !== 'string' || typeof result.environment !== 'object' || !result.environment)
      return undefined;
    return { environment: result.environment, reason: result.reason };
  } catch {
    return undefined;
  }
}

function keepResult(file: string, result: CpuSafety): CpuSafety {
  try {
    mkdirSync(path.dirname(file), { recursive: true });
    const temporary = `${file}.${process.pid}`;
    writeFileSync(temporary, `${JSON.stringify(result)}\n`);
    renameSync(temporary, file);
  } catch {
    // A home that cannot be written to costs a probe per process, nothing more.
  }
  return result;
}
