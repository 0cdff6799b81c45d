import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { hostname, tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { withLock } from './lock.mjs';

let folder: string;
let file: string;
beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'verlet-lock-'));
  file = path.join(folder, 'deep/build.lock');
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

describe('withLock', () => {
  it('lets one in at a time and leaves no lock behind, even after a failure', async () => {
    let inside = 0;
    let most = 0;
    const enter = async () => {
      most = Math.max(most, ++inside);
      await new Promise((resolve) => setTimeout(resolve, 5));
      inside--;
    };
    await Promise.all([withLock(file, 'build', enter), withLock(file, 'build', enter), withLock(file, 'build', enter)]);
    expect(most).toBe(1);
    await expect(withLock(file, 'build', () => Promise.reject(new Error('no')))).rejects.toThrow('no');
    expect(existsSync(file)).toBe(false);
  });

  it('takes over the lock of a process that died', async () => {
    await withLock(file, 'build', async () => undefined);
    writeFileSync(file, JSON.stringify({ pid: 2 ** 30, host: hostname() }));
    expect(await withLock(file, 'build', async () => 'mine')).toBe('mine');
  });

  it('gives up at the deadline and says what to remove', async () => {
    await withLock(file, 'build', async () => {
      await expect(withLock(file, 'build', async () => undefined, { timeoutMs: 10 })).rejects.toThrow(`rm ${file}`);
    });
  });
});
