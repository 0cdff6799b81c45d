// One set-up at a time per folder: parallel `npm ci` runs share a cache.
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { say } from './processes.mjs';
import { SetUpError } from './set-up-error.mjs';

const HALF_AN_HOUR = 30 * 60_000;

export async function withLock(file, what, body, { timeoutMs = HALF_AN_HOUR } = {}) {
  mkdirSync(path.dirname(file), { recursive: true });
  const mine = JSON.stringify({ pid: process.pid, host: hostname() });
  const deadline = Date.now() + timeoutMs;
  let told = false;
  while (!take(file, mine)) {
    if (holderIsGone(file)) {
      rmSync(file, { force: true });
      continue;
    }
    if (!told) say(`waiting for another ${what} (lock ${file})`);
    told = true;
    if (Date.now() > deadline) {
      throw new SetUpError(`another ${what} held ${file} for ${timeoutMs / 60_000} minutes`, `rm ${file}`);
    }
    await sleep(500);
  }
  try {
    return await body();
  } finally {
    rmSync(file, { force: true });
  }
}

function take(file, content) {
  try {
    writeFileSync(file, content, { flag: 'wx' });
    return true;
  } catch (error) {
    if (error.code === 'EEXIST') return false;
    throw error;
  }
}

/** A lock of a process that no longer runs on this host is left over from a crash. */
function holderIsGone(file) {
  try {
    const { pid, host } = JSON.parse(readFileSync(file, 'utf8'));
    if (host !== hostname()) return false;
    process.kill(pid, 0);
    return false;
  } catch (error) {
    return error.code === 'ESRCH';
  }
}
