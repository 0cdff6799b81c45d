import { copyFile, mkdir, readdir, readFile, rename, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { dirname, join, relative, sep } from 'node:path';
import type { Repository } from './repository.js';

/** The layout of `~/.cache/huggingface/hub`, shared with every Hugging Face tool: blobs, refs and snapshots of links. */
export class RepositoryCache {
  readonly folder: string;

  constructor(
    cacheFolder: string,
    private readonly repository: Repository,
  ) {
    this.folder = join(cacheFolder, `${repository.kind}s--${repository.name.replaceAll('/', '--')}`);
  }

  blobPath(etag: string): string {
    return join(this.folder, 'blobs', etag);
  }

  snapshotFolder(commit: string): string {
    return join(this.folder, 'snapshots', commit);
  }

  /** The commit that the asked revision pointed to when it was last looked up, if its snapshot is here. */
  async cachedCommit(): Promise<string | null> {
    const { revision } = this.repository;
    const named = (await readFile(join(this.folder, 'refs', revision), 'utf8').catch(() => null))?.trim();
    for (const commit of [named, revision]) {
      if (commit && (await isThere(this.snapshotFolder(commit)))) return commit;
    }
    return null;
  }

  /** Paths inside a snapshot whose content is really there. */
  async filesOf(commit: string): Promise<string[]> {
    const root = this.snapshotFolder(commit);
    const names = await readdir(root, { recursive: true }).catch(() => [] as string[]);
    const files: string[] = [];
    for (const name of names) {
      const found = await stat(join(root, name)).catch(() => null);
      if (found?.isFile()) files.push(name.split(sep).join('/'));
    }
    return files.sort();
  }

  async rememberCommit(commit: string): Promise<void> {
    if (this.repository.revision === commit) return;
    const path = join(this.folder, 'refs', this.repository.revision);
    await mkdir(dirname(path), { recursive: true });
    await writeFile(`${path}.${process.pid}`, commit);
    await rename(`${path}.${process.pid}`, path);
  }

  /** Puts a blob into a snapshot under its path. */
  async link(commit: string, path: string, etag: string): Promise<void> {
    const target = join(this.snapshotFolder(commit), ...path.split('/'));
    if (await isThere(target)) return;
    await mkdir(dirname(target), { recursive: true });
    await rm(target, { force: true });
    try {
      await symlink(relative(dirname(target), this.blobPath(etag)), target);
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === 'EEXIST') return;
      // Windows without developer mode and some network disks have no links.
      if (code !== 'EPERM' && code !== 'ENOSYS' && code !== 'ENOTSUP') throw error;
      await copyFile(this.blobPath(etag), target);
    }
  }
}

async function isThere(path: string): Promise<boolean> {
  return (await stat(path).catch(() => null)) !== null;
}
