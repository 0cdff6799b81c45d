import { open, rm, stat, utimes } from 'node:fs/promises';
import { sleep } from './repository.js';

const STALE_AFTER_MS = 60_000;

/**
 * Only one process at a time does `work`; the others wait and then find it done. A holder that died is recognised by a
 * lock that was not touched for a minute.
 */
export async function withLock<T>(path: string, work: (keepAlive: () => void) => Promise<T>): Promise<T> {
  while (!(await acquire(path))) await sleep(200);
  let touched = Date.now();
  const keepAlive = () => {
    if (Date.now() - touched < 5000) return;
    touched = Date.now();
    const now = new Date();
    utimes(path, now, now).catch(() => {});
  };
  // Hashing a large file takes longer than a lock may look dead.
  const timer = setInterval(keepAlive, 5000);
  try {
    return await work(keepAlive);
  } finally {
    clearInterval(timer);
    await rm(path, { force: true });
  }
}

async function acquire(path: string): Promise<boolean> {
  try {
    await (await open(path, 'wx')).close();
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
  const held = await stat(path).catch(() => null);
  if (held && Date.now() - held.mtimeMs > STALE_AFTER_MS) await rm(path, { force: true });
  return false;
}
