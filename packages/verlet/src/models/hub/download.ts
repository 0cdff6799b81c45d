import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { type FileHandle, mkdir, open, rename, rm, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { UserError } from '../../config/errors.js';
import { withLock } from './lock.js';
import {
  authorization,
  causeOf,
  HubRefusal,
  type RemoteFile,
  type Repository,
  refusalOf,
  sleep,
} from './repository.js';
import type { HubSettings } from './settings.js';

export interface DownloadProgress {
  repository: string;
  file: string;
  /** Of this file, including what an earlier attempt had left. */
  receivedBytes: number;
  totalBytes: number | null;
}

export interface Download {
  url: string;
  file: RemoteFile;
  repository: Repository;
  /** Where the content goes; beside it `.incomplete` keeps a broken-off transfer. */
  blobPath: string;
  settings: HubSettings;
  onProgress?: (progress: DownloadProgress) => void;
}

/** Fetches a file into its place in the cache: resumed where it broke off, checked before it gets its name. */
export async function downloadBlob(download: Download): Promise<void> {
  await mkdir(dirname(download.blobPath), { recursive: true });
  await withLock(`${download.blobPath}.lock`, async (keepAlive) => {
    if (await exists(download.blobPath)) return;
    const partial = `${download.blobPath}.incomplete`;
    for (let corruptions = 0; ; ) {
      await transfer(download, partial, keepAlive);
      const problem = await checkContent(partial, download.file);
      if (!problem) break;
      // A resumed part may have been bad before this transfer: one clean start, then give up.
      await rm(partial, { force: true });
      if (++corruptions === 2)
        throw new UserError(`${download.url} arrived corrupted twice: ${problem}. Nothing was kept`);
    }
    await rename(partial, download.blobPath);
  });
}

async function transfer(download: Download, partial: string, keepAlive: () => void): Promise<void> {
  const { settings, file, repository } = download;
  let problem: unknown;
  for (let attempt = 1; attempt <= settings.maxAttempts; attempt++) {
    const before = await sizeOf(partial);
    if (file.size !== null && before === file.size) return;
    try {
      await receive(download, partial, keepAlive);
      return;
    } catch (error) {
      if (error instanceof HubRefusal || isDiskProblem(error)) throw error;
      problem = error;
      // Progress was made, so the connection works at times: do not count this attempt.
      if ((await sizeOf(partial)) > before) attempt = Math.max(0, attempt - 1);
    }
    if (attempt < settings.maxAttempts) await sleep(settings.retryDelayMs * 2 ** Math.max(0, attempt - 1));
  }
  throw new UserError(
    `the download of ${file.path} of ${repository.name} broke off at ${await sizeOf(partial)} of ${file.size ?? '?'} bytes ` +
      `and could not be resumed: ${causeOf(problem)}. Run again to go on from there`,
    { cause: problem },
  );
}

/** One connection: appends to the partial file what the server still has to give. */
async function receive(download: Download, partial: string, keepAlive: () => void): Promise<void> {
  const { url, settings, file, repository, onProgress } = download;
  const offset = await sizeOf(partial);
  const abort = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  const alive = () => {
    clearTimeout(timer);
    timer = setTimeout(
      () => abort.abort(new Error(`nothing arrived for ${settings.idleTimeoutMs / 1000} s`)),
      settings.idleTimeoutMs,
    );
    keepAlive();
  };
  alive();
  let handle: FileHandle | undefined;
  try {
    const response = await fetch(url, {
      headers: {
        ...authorization(settings),
        'accept-encoding': 'identity',
        ...(offset > 0 && { range: `bytes=${offset}-` }),
      },
      signal: abort.signal,
    });
    if (response.status === 416) {
      await rm(partial, { force: true });
      throw new Error('the server does not have the asked range; starting over');
    }
    if (!response.ok || !response.body) {
      await response.body?.cancel();
      throw refusalOf(response.status, repository, settings) ?? new Error(`HTTP ${response.status}`);
    }
    // A server that ignores the range sends everything again.
    const isResumed = response.status === 206;
    let received = isResumed ? offset : 0;
    handle = await open(partial, isResumed ? 'a' : 'w');
    for await (const chunk of response.body) {
      alive();
      await handle.write(chunk);
      received += chunk.length;
      onProgress?.({ repository: repository.name, file: file.path, receivedBytes: received, totalBytes: file.size });
    }
    await handle.sync();
    if (file.size !== null && received < file.size) throw new Error(`the connection ended after ${received} bytes`);
  } finally {
    clearTimeout(timer);
    await handle?.close();
  }
}

/** Null when the content is what the hub named; else what is wrong with it. */
async function checkContent(path: string, { etag, size }: RemoteFile): Promise<string | null> {
  const actualSize = await sizeOf(path);
  if (size !== null && actualSize !== size) return `${actualSize} bytes instead of ${size}`;
  if (/^[0-9a-f]{64}$/.test(etag)) return mismatch('sha256', await digest(path, 'sha256'), etag);
  // Git names a small file by sha1 over a header and the content.
  if (/^[0-9a-f]{40}$/.test(etag))
    return mismatch('git blob id', await digest(path, 'sha1', `blob ${actualSize}\0`), etag);
  return null;
}

function mismatch(what: string, actual: string, expected: string): string | null {
  return actual === expected ? null : `${what} ${actual} instead of ${expected}`;
}

async function digest(path: string, algorithm: string, header = ''): Promise<string> {
  const hash = createHash(algorithm).update(header);
  for await (const chunk of createReadStream(path, { highWaterMark: 1 << 20 })) hash.update(chunk as Buffer);
  return hash.digest('hex');
}

async function sizeOf(path: string): Promise<number> {
  return (await stat(path).catch(() => null))?.size ?? 0;
}

async function exists(path: string): Promise<boolean> {
  return (await stat(path).catch(() => null)) !== null;
}

function isDiskProblem(error: unknown): boolean {
  return ['ENOSPC', 'EACCES', 'EROFS', 'EDQUOT'].includes((error as NodeJS.ErrnoException).code ?? '');
}
