import { existsSync, lstatSync, readlinkSync } from 'node:fs';
import type { BoxCommand } from '../box.js';
import { nodeHarness } from '../node-harness.js';
import { zygoteSource } from './zygote.js';

export interface BubblewrapOptions {
  bubblewrap: string;
  python: string;
  /** Directories outside the system tree that Python needs (its prefix). */
  readOnly: string[];
  /** The Node binary to offer inside the box; without it JavaScript programs fail. */
  node?: string;
  /** What lets a warm Node fork (see node-fork.ts); without it every JavaScript program starts a Node. */
  nodeFork?: Buffer;
  /** Set when the caller is root: the box then runs as this uid. As root the process limit would not count. */
  uid?: number;
  setpriv?: string;
  canDisableUserNamespaces: boolean;
  hasTmpfsSize: boolean;
  scratchMb: number;
}

const nodeInBox = '/run/node';

/** The zygote keeps the time limit, counted from the start of the program; on a busy machine that start may be late. */
export const bubblewrapGraceMs = 15_000;

/** The command line of one box. The order of the mounts matters: what comes later lies on top. */
export function bubblewrapCommand(options: BubblewrapOptions): BoxCommand {
  const args = ['--unshare-all', '--unshare-user', '--die-with-parent', '--new-session', '--as-pid-1', '--clearenv'];
  if (options.canDisableUserNamespaces) args.push('--disable-userns');
  args.push('--uid', '1000', '--gid', '1000', '--hostname', 'sandbox', '--cap-drop', 'ALL');
  args.push('--ro-bind', '/usr', '/usr', ...systemTree());
  for (const path of options.readOnly) args.push('--ro-bind', path, path);
  if (options.node) args.push('--ro-bind', options.node, nodeInBox);
  args.push('--proc', '/proc', '--dev', '/dev');
  if (options.hasTmpfsSize) args.push('--size', String(options.scratchMb << 20));
  args.push('--tmpfs', '/tmp', '--remount-ro', '/dev', '--remount-ro', '/', '--chdir', '/tmp');
  // A fixed hash seed: the order of a set must not make a reward random.
  const env = {
    PATH: '/usr/bin:/bin',
    HOME: '/tmp',
    LANG: 'C.UTF-8',
    PYTHONHASHSEED: '0',
    PYTHONDONTWRITEBYTECODE: '1',
  };
  for (const [key, value] of Object.entries(env)) args.push('--setenv', key, value);
  args.push('--', options.python, '-s', '-c', zygoteSource, options.node ? nodeInBox : '', nodeHarness);
  args.push(options.nodeFork?.toString('base64') ?? '');
  if (options.uid === undefined) return { command: options.bubblewrap, args, startMs: 20_000 };
  const id = String(options.uid);
  const drop = ['--reuid', id, '--regid', id, '--clear-groups', '--no-new-privs', '--', options.bubblewrap];
  return { command: options.setpriv ?? 'setpriv', args: [...drop, ...args], startMs: 20_000 };
}

/** /lib, /lib64, /bin: symbolic links into /usr on merged systems, real directories elsewhere. */
function systemTree(): string[] {
  return ['/lib', '/lib64', '/lib32', '/bin', '/sbin'].flatMap((path) => {
    if (!existsSync(path)) return [];
    return lstatSync(path).isSymbolicLink() ? ['--symlink', readlinkSync(path), path] : ['--ro-bind', path, path];
  });
}
