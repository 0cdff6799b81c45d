import { readFile, stat } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join, resolve } from 'node:path';
import { UserError } from '../../config/errors.js';
import { RepositoryCache } from './cache.js';
import { type DownloadProgress, downloadBlob } from './download.js';
import { globToRegExp } from './glob.js';
import { fetchFileHeaders, fetchSnapshot, fileUrl, type Repository, type RepositoryKind } from './repository.js';
import { type HubSettings, hubSettings } from './settings.js';

export interface ResolveOptions {
  /** Branch, tag or commit; `name@revision` says the same. */
  revision?: string;
  onProgress?: (progress: DownloadProgress) => void;
  settings?: Partial<HubSettings>;
}

/** What a model needs: configuration, tokenizer, safetensors. Other weight formats are not fetched. */
const MODEL_FILES = globToRegExp('{*.json,*.safetensors,*.jinja,merges.txt,vocab.txt,tokenizer.model}');

/**
 * The local folder of a model: a path as it is, else the Hugging Face cache, else a download into it.
 *
 * @example
 * const folder = await resolveModel('Qwen/Qwen2.5-0.5B-Instruct');
 */
export async function resolveModel(nameOrPath: string, options: ResolveOptions = {}): Promise<string> {
  const path = expandHome(nameOrPath);
  if (await isFolder(path)) return resolve(path);
  const repository = parseRepository(nameOrPath.replace(/^hf:\/\/(models\/)?/, ''), 'model', options.revision);
  if (!repository || /^[./~]/.test(nameOrPath)) {
    throw new UserError(`there is no folder ${resolve(path)}, and "${nameOrPath}" is not a hub name like "org/name"`);
  }
  const { commit, cache } = await ensureFiles(repository, (file) => MODEL_FILES.test(file), isCompleteModel, options);
  return cache.snapshotFolder(commit);
}

/**
 * Local paths of files named by `hf://datasets/org/name[@revision]/path`, where the path may be a glob or a folder;
 * without one, all parquet and JSON files.
 */
export async function resolveHubFiles(url: string, options: ResolveOptions = {}): Promise<string[]> {
  const match = /^hf:\/\/(datasets|models)\/([^/]+\/[^/@]+(?:@[^/]+)?)(?:\/(.*))?$/.exec(url);
  const repository =
    match && parseRepository(match[2] as string, match[1]?.slice(0, -1) as RepositoryKind, options.revision);
  if (!match || !repository) {
    throw new UserError(`"${url}" is not a hub path like hf://datasets/org/name/data/train.parquet`);
  }
  const inner = match[3]?.replace(/\/+$/, '') || '**/*.{parquet,json,jsonl}';
  const pattern = globToRegExp(inner);
  const isWanted = (file: string) => pattern.test(file) || file.startsWith(`${inner}/`);
  // A cached part of a glob is not proof that there is no more: only a single named file is taken from the cache unasked.
  const isComplete = async (files: string[]) => files.includes(inner);
  const { commit, cache } = await ensureFiles(repository, isWanted, isComplete, options);
  const files = (await cache.filesOf(commit)).filter(isWanted);
  if (files.length === 0) throw new UserError(`${url}: no file of ${repository.name} matches "${inner}"`);
  return files.map((file) => join(cache.snapshotFolder(commit), ...file.split('/')));
}

async function ensureFiles(
  repository: Repository,
  isWanted: (path: string) => boolean,
  isComplete: (files: string[], folder: string) => Promise<boolean>,
  options: ResolveOptions,
): Promise<{ commit: string; cache: RepositoryCache }> {
  const settings = { ...hubSettings(), ...options.settings };
  const cache = new RepositoryCache(settings.cacheFolder, repository);
  const cached = await cache.cachedCommit();
  if (cached !== null) {
    const isUsable = await isComplete(await cache.filesOf(cached), cache.snapshotFolder(cached));
    if (isUsable || settings.isOffline) return { commit: cached, cache };
  }
  if (settings.isOffline) {
    throw new UserError(
      `${repository.name} (revision ${repository.revision}) is not in ${settings.cacheFolder} and HF_HUB_OFFLINE is set. ` +
        `Give a local folder or unset it`,
    );
  }
  const commit = await downloadSnapshot(repository, isWanted, cache, settings, options.onProgress);
  return { commit, cache };
}

async function downloadSnapshot(
  repository: Repository,
  isWanted: (path: string) => boolean,
  cache: RepositoryCache,
  settings: HubSettings,
  onProgress: ResolveOptions['onProgress'],
): Promise<string> {
  const { commit, files } = await fetchSnapshot(repository, settings);
  const wanted = files.filter(({ path }) => isWanted(path) && !path.split('/').includes('..'));
  if (repository.kind === 'model' && !wanted.some(({ path }) => path.endsWith('.safetensors'))) {
    throw new UserError(
      `${repository.name} has no safetensors weights (it has: ${files.map(({ path }) => path).join(', ') || 'nothing'}). ` +
        `Weights in pickle formats are not read`,
    );
  }
  for (const { path, size, etag } of wanted) {
    const file = etag === null ? await fetchFileHeaders(repository, commit, path, settings) : { path, size, etag };
    const url = fileUrl(repository, commit, path, settings);
    await downloadBlob({ url, file, repository, blobPath: cache.blobPath(file.etag), settings, onProgress });
    await cache.link(commit, path, file.etag);
  }
  // Last, so that the name never leads to a snapshot with files missing.
  await cache.rememberCommit(commit);
  return commit;
}

/** All shards that the index names, or the single file. */
async function isCompleteModel(files: string[], folder: string): Promise<boolean> {
  if (!files.includes('config.json')) return false;
  if (files.includes('model.safetensors.index.json')) {
    const text = await readFile(join(folder, 'model.safetensors.index.json'), 'utf8');
    const { weight_map: weightMap } = JSON.parse(text) as { weight_map: Record<string, string> };
    return Object.values(weightMap).every((shard) => files.includes(shard));
  }
  return files.some((file) => file.endsWith('.safetensors'));
}

function parseRepository(text: string, kind: RepositoryKind, revision?: string): Repository | null {
  const match = /^([\w.-]+(?:\/[\w.-]+)?)(?:@([\w./-]+))?$/.exec(text);
  if (!match) return null;
  return { kind, name: match[1] as string, revision: revision ?? match[2] ?? 'main' };
}

function expandHome(path: string): string {
  return path.startsWith('~/') ? join(homedir(), path.slice(2)) : path;
}

async function isFolder(path: string): Promise<boolean> {
  return (await stat(path).catch(() => null))?.isDirectory() ?? false;
}
