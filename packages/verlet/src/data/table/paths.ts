import { readdir, stat } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join, resolve, sep } from 'node:path';
import { globToRegExp, type ResolveOptions, resolveHubFiles } from '../../models/hub/index.js';
import { DataError } from './errors.js';

export const DATA_EXTENSIONS = ['.parquet', '.jsonl', '.ndjson', '.json'];

/** Files, folders, globs and `hf://` paths as a list of local files, in a stable order. */
export async function expandPaths(paths: string | readonly string[], options: ResolveOptions = {}): Promise<string[]> {
  const files: string[] = [];
  for (const path of typeof paths === 'string' ? [paths] : paths) {
    files.push(...(await expandPath(path, options)));
  }
  if (files.length === 0) throw new DataError('no data files are named');
  return files;
}

async function expandPath(path: string, options: ResolveOptions): Promise<string[]> {
  if (path.startsWith('hf://')) return resolveHubFiles(path, options);
  const local = resolve(path.startsWith('~/') ? join(homedir(), path.slice(2)) : path);
  const found = await stat(local).catch(() => null);
  if (found?.isFile()) return [local];
  if (found?.isDirectory()) {
    const files = (await filesUnder(local)).filter(isDataFile);
    if (files.length === 0)
      throw new DataError(`the folder has no ${DATA_EXTENSIONS.join(', ')} file`, { file: local });
    return files;
  }
  if (!/[*?[{]/.test(path)) throw new DataError('there is no such file or folder', { file: local });
  const parts = local.split(sep);
  const firstGlob = parts.findIndex((part) => /[*?[{]/.test(part));
  const pattern = globToRegExp(parts.join('/'));
  const root = parts.slice(0, firstGlob).join(sep) || sep;
  const files = (await filesUnder(root)).filter((file) => pattern.test(file.split(sep).join('/')));
  if (files.length === 0) throw new DataError('no file matches', { file: local });
  return files;
}

async function filesUnder(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => []);
  return entries
    .filter((entry) => (entry.isFile() || entry.isSymbolicLink()) && !entry.name.startsWith('.'))
    .map((entry) => join(entry.parentPath ?? entry.path, entry.name))
    .sort();
}

function isDataFile(path: string): boolean {
  return DATA_EXTENSIONS.some((extension) => path.toLowerCase().endsWith(extension));
}
