import { spawnSync } from 'node:child_process';
import { existsSync, realpathSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, sep } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { BoxCommand } from '../box.js';
import { pyodideChildSource } from './pyodide-child.js';
import { quickjsChildSource } from './quickjs-child.js';

const require = createRequire(import.meta.url);

/** Node with the permission model on: reading below `readable` is all it may do (Node 20-24 do not cover the network). */
function lockedNode(source: string, readable: string[], flags: string[], args: string[]): BoxCommand {
  // Node 20 and 22 know it under the longer name.
  const permission = Number(process.versions.node.split('.')[0]) >= 24 ? '--permission' : '--experimental-permission';
  const allow = readable.map((path) => `--allow-fs-read=${path}${sep}*`);
  const node = ['--no-warnings', permission, ...allow, ...flags, '--input-type=module', '-e', source, '--', ...args];
  const canDrop = process.getuid?.() === 0 && [process.execPath, ...readable].every(isReachableByOthers);
  if (!canSignalOnParentDeath()) return { command: process.execPath, args: node, startMs: 60_000 };
  const drop = canDrop ? ['--reuid', '64738', '--regid', '64738', '--clear-groups', '--no-new-privs'] : [];
  const wrapped = ['--pdeathsig', 'KILL', ...drop, '--', process.execPath, ...node];
  return { command: 'setpriv', args: wrapped, startMs: 60_000, env: { PATH: '/usr/bin:/bin' } };
}

let hasSetpriv: boolean | undefined;
/** Without it a program in an endless loop would outlive a trainer that is killed. */
function canSignalOnParentDeath(): boolean {
  const path = { PATH: '/usr/bin:/bin' };
  hasSetpriv ??= spawnSync('setpriv', ['--help'], { encoding: 'utf8', timeout: 10_000, env: path }).stdout?.includes(
    '--pdeathsig',
  );
  return hasSetpriv ?? false;
}

export function pyodideCommand(memoryMb: number): BoxCommand {
  const folder = dirname(realpathSync(require.resolve('pyodide')));
  const url = pathToFileURL(join(folder, 'pyodide.mjs')).href;
  const flags = ['--disallow-code-generation-from-strings', '--stack-size=3900'];
  return lockedNode(pyodideChildSource, [folder], flags, [url, `${folder}${sep}`, String(memoryMb)]);
}

export function quickjsCommand(): BoxCommand {
  const entry = realpathSync(require.resolve('quickjs-emscripten'));
  const modules = entry.slice(0, entry.lastIndexOf(`${sep}quickjs-emscripten${sep}`));
  const readable = ['quickjs-emscripten', 'quickjs-emscripten-core', '@jitl'].map((name) => join(modules, name));
  const url = pathToFileURL(entry.replace(/\.js$/, existsSync(entry.replace(/\.js$/, '.mjs')) ? '.mjs' : '.js')).href;
  return lockedNode(
    quickjsChildSource,
    readable.filter(existsSync),
    ['--disallow-code-generation-from-strings'],
    [url],
  );
}

/** Whether an unprivileged user can reach the path: every folder above it lets others through. */
function isReachableByOthers(path: string): boolean {
  for (let folder = path; ; folder = dirname(folder)) {
    if ((statSync(folder).mode & 0o001) === 0) return false;
    if (folder === dirname(folder)) return true;
  }
}
