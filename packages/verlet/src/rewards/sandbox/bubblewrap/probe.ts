import { spawnSync } from 'node:child_process';
import { accessSync, constants, realpathSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { Box } from '../box.js';
import { defaultLimits } from '../types.js';
import { type BubblewrapOptions, bubblewrapCommand, bubblewrapGraceMs } from './command.js';
import { nodeForkLibrary } from './node-fork.js';

export interface BubblewrapProbe {
  /** Present when a Python program really ran in a box. */
  options?: BubblewrapOptions;
  /** True when a JavaScript program really ran in a box. */
  runsNode: boolean;
  /** Why JavaScript programs start a Node each instead of being forked from a warm one. */
  slowNode?: string;
  version?: string;
  reasons: string[];
}

/**
 * The spare uid a box runs as when the caller is root. High enough to belong to nobody, and another one in every process: the
 * limit on processes counts by uid, and a fork bomb in one trainer must not starve the boxes of another.
 */
const spareUid = 61_184 + (process.pid % 4096);

/** Tries the real thing: finds the programs, starts a box, runs one Python and one JavaScript program in it. */
export async function probeBubblewrap(
  wanted: { python?: string; node?: string; uid?: number } = {},
): Promise<BubblewrapProbe> {
  const nothing = (reason: string): BubblewrapProbe => ({ runsNode: false, reasons: [reason] });
  if (process.platform !== 'linux') return nothing(`bubblewrap needs Linux; this is ${process.platform}`);
  const bubblewrap = findExecutable('bwrap');
  if (!bubblewrap) return nothing('bwrap (bubblewrap) is not installed');
  const isRoot = process.getuid?.() === 0;
  const setpriv = findExecutable('setpriv');
  if (isRoot && !setpriv)
    return nothing('running as root without setpriv (package util-linux): cannot drop to another user');
  const help = spawnSync(bubblewrap, ['--help'], { encoding: 'utf8', timeout: 10_000 });
  const flags = `${help.stdout}${help.stderr}`;
  if (!flags.includes('--as-pid-1')) return nothing(`${bubblewrap} is too old: it has no --as-pid-1`);
  const version = spawnSync(bubblewrap, ['--version'], { encoding: 'utf8', timeout: 10_000 }).stdout?.trim();

  const reasons: string[] = [];
  const fork = nodeForkLibrary();
  for (const python of pythonCandidates(wanted.python)) {
    const options: BubblewrapOptions = {
      bubblewrap,
      setpriv,
      uid: isRoot ? (wanted.uid ?? spareUid) : undefined,
      python: python.path,
      readOnly: python.prefixes,
      node: realpathSync(wanted.node ?? process.execPath),
      nodeFork: 'library' in fork ? fork.library : undefined,
      canDisableUserNamespaces: flags.includes('--disable-userns'),
      hasTmpfsSize: flags.includes('--size'),
      scratchMb: 64,
    };
    // A Node under a private home directory cannot be seen by the spare uid. Python alone is still worth having.
    for (const attempt of [options, { ...options, node: undefined }]) {
      const { failure, isForked } = await tryOut(attempt);
      if (!failure) {
        const slowNode = isForked ? undefined : 'reason' in fork ? fork.reason : 'a warm Node did not fork here';
        // What did not work once is not tried again in every box.
        const proven = isForked ? attempt : { ...attempt, nodeFork: undefined };
        return { options: proven, runsNode: attempt.node !== undefined, slowNode, version, reasons };
      }
      reasons.push(`${python.path}${attempt.node ? ` with ${attempt.node}` : ''}: ${failure}`);
    }
  }
  if (reasons.length === 0) reasons.push('no python3 found to run inside the box');
  return { runsNode: false, reasons, version };
}

async function tryOut(options: BubblewrapOptions): Promise<{ failure?: string; isForked: boolean }> {
  let box: Box | undefined;
  const failed = (failure: string) => ({ failure, isForked: false });
  try {
    box = await Box.start(bubblewrapCommand(options), { graceMs: bubblewrapGraceMs });
    const trial = { mode: 'script', limits: { ...defaultLimits, timeoutMs: 10_000 } } as const;
    const python = await box.execute({ ...trial, language: 'python', code: 'print(6 * 7)' });
    if (python.stdout !== '42\n') return failed(`Python did not run: ${python.status} ${python.stderr}`);
    if (!options.node) return { isForked: false };
    const code = 'console.log(6 * 7, process.execArgv.includes("--single-threaded"))';
    const node = await box.execute({ ...trial, language: 'javascript', code });
    if (node.status !== 'ok' || !node.stdout.startsWith('42 '))
      return failed(`Node did not run: ${node.status} ${node.stderr}`);
    return { isForked: node.stdout === '42 true\n' };
  } catch (error) {
    return failed(error instanceof Error ? error.message : String(error));
  } finally {
    await box?.close();
  }
}

function pythonCandidates(wanted: string | undefined): { path: string; prefixes: string[] }[] {
  const asked = wanted ?? process.env.VERLET_SANDBOX_PYTHON;
  const names = asked ? [asked] : ['/usr/bin/python3', findExecutable('python3')];
  const seen = new Set<string>();
  return names.flatMap((name) => {
    if (!name) return [];
    const code = 'import sys; print(sys.executable); print(sys.base_prefix); print(sys.prefix)';
    const told = spawnSync(name, ['-I', '-c', code], { encoding: 'utf8', timeout: 15_000 });
    const [path, ...prefixes] = (told.stdout ?? '').trim().split('\n');
    if (told.status !== 0 || !path || seen.has(path)) return [];
    seen.add(path);
    return [{ path, prefixes: [...new Set(prefixes)].filter((prefix) => prefix && !/^\/usr(\/|$)/.test(prefix)) }];
  });
}

function findExecutable(name: string): string | undefined {
  for (const folder of [...(process.env.PATH ?? '').split(delimiter), '/usr/bin', '/bin', '/usr/sbin', '/sbin']) {
    if (!folder) continue;
    const path = join(folder, name);
    try {
      accessSync(path, constants.X_OK);
      return path;
    } catch {
      // Not in this folder.
    }
  }
  return undefined;
}
