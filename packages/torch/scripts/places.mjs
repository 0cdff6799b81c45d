// Where things live: the package, the per-user cache, and what the last build left behind.
import { existsSync, readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

export const packageFolder = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
export const buildFolder = path.join(packageFolder, 'build');

/** One file says which addon to load and against which libtorch it was built; `src/load.ts` reads it. */
export const buildRecord = path.join(buildFolder, 'addon.json');

export function cacheFolder() {
  const base = process.env.XDG_CACHE_HOME || path.join(homedir(), '.cache');
  return path.join(base, 'verlet');
}

export function readJson(file) {
  if (!existsSync(file)) return undefined;
  try {
    return JSON.parse(readFileSync(file, 'utf8'));
  } catch {
    return undefined;
  }
}
