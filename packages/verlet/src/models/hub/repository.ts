import { UserError } from '../../config/errors.js';
import type { HubSettings } from './settings.js';

export type RepositoryKind = 'model' | 'dataset';

export interface Repository {
  kind: RepositoryKind;
  /** `org/name`. */
  name: string;
  revision: string;
}

export interface RemoteFile {
  path: string;
  size: number | null;
  /** Names the content: sha256 of an LFS file, git's blob id of a small one, else whatever the server calls it. */
  etag: string;
}

/** What a revision holds now. */
export interface RemoteSnapshot {
  commit: string;
  files: { path: string; size: number | null; etag: string | null }[];
}

interface ApiAnswer {
  sha?: string;
  siblings?: { rfilename: string; size?: number; blobId?: string; lfs?: { sha256?: string; size?: number } }[];
}

export async function fetchSnapshot(repository: Repository, settings: HubSettings): Promise<RemoteSnapshot> {
  const { kind, name, revision } = repository;
  const url = `${settings.endpoint}/api/${kind}s/${name}/revision/${encodeURIComponent(revision)}?blobs=true`;
  const response = await request(url, repository, settings);
  const answer = (await response.json().catch(() => null)) as ApiAnswer | null;
  if (!answer?.sha || !Array.isArray(answer.siblings)) {
    throw new UserError(
      `${url} did not answer as the Hugging Face hub does; is HF_ENDPOINT (${settings.endpoint}) a hub?`,
    );
  }
  return {
    commit: answer.sha,
    files: answer.siblings.map(({ rfilename, size, blobId, lfs }) => ({
      path: rfilename,
      size: lfs?.size ?? size ?? null,
      etag: lfs?.sha256 ?? blobId ?? null,
    })),
  };
}

/** For servers that list names only: the headers of the file itself. */
export async function fetchFileHeaders(
  repository: Repository,
  commit: string,
  path: string,
  settings: HubSettings,
): Promise<RemoteFile> {
  const response = await request(fileUrl(repository, commit, path, settings), repository, settings, {
    method: 'HEAD',
    redirect: 'manual',
  });
  const etag = response.headers.get('x-linked-etag') ?? response.headers.get('etag');
  if (!etag) throw new UserError(`${response.url} came without an ETag, so its content cannot be checked`);
  const size = response.headers.get('x-linked-size') ?? response.headers.get('content-length');
  const isRedirect = response.status >= 300 && response.headers.get('x-linked-size') === null;
  return {
    path,
    etag: etag.replace(/^W\//, '').replace(/"/g, ''),
    size: size === null || isRedirect ? null : Number(size),
  };
}

export function fileUrl({ kind, name }: Repository, commit: string, path: string, { endpoint }: HubSettings): string {
  const prefix = kind === 'dataset' ? 'datasets/' : '';
  return `${endpoint}/${prefix}${name}/resolve/${commit}/${path.split('/').map(encodeURIComponent).join('/')}`;
}

export function authorization({ token }: HubSettings): Record<string, string> {
  return token ? { authorization: `Bearer ${token}` } : {};
}

/** An answer that is good, or an error that says what to do. */
async function request(
  url: string,
  repository: Repository,
  settings: HubSettings,
  options: RequestInit = {},
): Promise<Response> {
  let problem: unknown;
  for (let attempt = 1; attempt <= settings.maxAttempts; attempt++) {
    try {
      const signal = AbortSignal.timeout(settings.idleTimeoutMs);
      const response = await fetch(url, { ...options, headers: authorization(settings), signal });
      if (response.status < 400) return response;
      const refusal = refusalOf(response.status, repository, settings);
      if (refusal) throw refusal;
      problem = new Error(`HTTP ${response.status}`);
    } catch (error) {
      if (error instanceof HubRefusal) throw error;
      problem = error;
    }
    if (attempt < settings.maxAttempts) await sleep(settings.retryDelayMs * 2 ** (attempt - 1));
  }
  throw new UserError(
    `cannot reach ${settings.endpoint} for ${repository.name}: ${causeOf(problem)}. Give a local folder, put the files ` +
      `into ${settings.cacheFolder}, or name a mirror in HF_ENDPOINT`,
    { cause: problem },
  );
}

/** A final no from the server; trying again does not help. */
export class HubRefusal extends UserError {}

export function refusalOf(status: number, repository: Repository, settings: HubSettings): HubRefusal | null {
  const { kind, name, revision } = repository;
  if (status === 404) {
    return new HubRefusal(
      `${settings.endpoint} has no ${kind} ${name} at revision ${revision}` +
        (settings.token ? '' : ' (or it is private: set HF_TOKEN)'),
    );
  }
  if (status === 401 || status === 403) {
    const advice = settings.token
      ? 'the token in HF_TOKEN has no access; accept the licence on its page or use another token'
      : 'it is private or gated: set HF_TOKEN';
    return new HubRefusal(`${settings.endpoint} refuses ${kind} ${name} (HTTP ${status}): ${advice}`);
  }
  return status >= 500 || status === 429 || status === 408
    ? null
    : new HubRefusal(`HTTP ${status} for ${kind} ${name}`);
}

export function causeOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? `${error.message} (${error.cause.message})` : error.message;
}

export function sleep(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}
