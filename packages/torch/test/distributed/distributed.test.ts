import { type ChildProcess, spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { groupBackends, ProcessGroup, TcpStore } from '../../src/index.js';

const script = fileURLToPath(new URL('./rank.mjs', import.meta.url));
const deadlineMs = 60_000;
let store: TcpStore;
let children: ChildProcess[] = [];

beforeEach(async () => {
  store = await TcpStore.open({ host: '127.0.0.1', port: 0, isServer: true, timeoutMs: 10_000 });
});

afterEach(async () => {
  for (const child of children) child.kill('SIGKILL');
  children = [];
  await store.close();
});

function startRank<T>(scenario: string, rank: number, worldSize: number): Promise<T> {
  const child = spawn(process.execPath, [script, scenario, String(rank), String(worldSize), String(store.port)], {
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: deadlineMs,
    killSignal: 'SIGKILL',
  });
  children.push(child);
  return new Promise((resolve, reject) => {
    let out = '';
    let log = '';
    child.stdout.on('data', (data) => {
      out += data;
    });
    child.stderr.on('data', (data) => {
      log += data;
    });
    child.on('error', reject);
    child.on('close', (code, signal) => {
      if (code === 0) resolve(JSON.parse(out) as T);
      else reject(new Error(`rank ${rank} ended with ${signal ?? code}: ${log}`));
    });
  });
}

interface Failure {
  error: {
    typed: boolean;
    reason: string;
    operation: string;
    rank: number;
    worldSize: number;
    timeoutMs: number;
    message: string;
  };
  ticks: number;
}

describe('process groups on Gloo', () => {
  it('gives every rank the same, right numbers', async () => {
    const worldSize = 3;
    const ranks = await Promise.all(
      [0, 1, 2].map((rank) => startRank<Record<string, unknown>>('collectives', rank, worldSize)),
    );
    ranks.forEach((results, rank) => {
      const four = (value: number[]) => Array(4).fill(value);
      expect(results.sum).toEqual(four([6, 60]));
      expect(results.avg).toEqual(four([2, 20]));
      expect(results.max).toEqual(four([3, 30]));
      expect(results.min).toEqual(four([1, 10]));
      // 6000 is 5984 in bfloat16 arithmetic.
      expect((results.product as number[][])[0]).toEqual([6, 6000]);
      expect(results.int64).toEqual([3, 3 * 2 ** 40]);
      expect(results.integerAverage).toMatch(/cannot average/);
      expect(results.gathered).toEqual(
        [0, 1, 2].flatMap((r) => [
          [r, r],
          [r, r + 0.5],
        ]),
      );
      expect(results.scattered).toEqual([2 * rank, 2 * rank + 1].map((k) => 3 * k + 300));
      expect(results.scatteredMean).toEqual([2 * rank, 2 * rank + 1].map((k) => k + 100));
      expect(results.told).toEqual([2, 2]);
      expect(results.sync).toEqual([6, [0, 1, 2], [3], 0]);
      expect(results.gaps).toMatch(/contiguous/);
      expect(results.many).toEqual(Array.from({ length: 50 }, (_, k) => [k, k, k]));
      expect(results.arrived).toBe(3);
      expect(results.live).toBe(0);
    });
  });

  it('says within the limit that a peer died, and the event loop goes on', async () => {
    const [survivor, victim] = await Promise.allSettled([
      startRank<Failure>('killed', 0, 2),
      startRank<Failure>('killed', 1, 2),
    ]);
    expect(victim.status).toBe('rejected');
    expect(survivor.status).toBe('fulfilled');
    const { error } = (survivor as PromiseFulfilledResult<Failure>).value;
    expect(error).toMatchObject({ typed: true, operation: 'allReduce', rank: 0, worldSize: 2, timeoutMs: 2000 });
    // Whether the closed connection or the limit is seen first depends on the kernel.
    expect(['peer-lost', 'timeout']).toContain(error.reason);
    expect(error.message).toMatch(/allReduce on rank 0 of 2/);
  });

  it('says that a peer is stuck, and the event loop goes on meanwhile', async () => {
    void startRank<Failure>('stuck', 1, 2).catch(() => undefined);
    const { error, ticks } = await startRank<Failure>('stuck', 0, 2);
    expect(error).toMatchObject({ typed: true, reason: 'timeout', operation: 'allReduce', timeoutMs: 2000 });
    expect(ticks).toBeGreaterThan(5);
  });

  it('says that a rank never came', async () => {
    const { error } = await startRank<Failure>('alone', 0, 2);
    expect(error).toMatchObject({ typed: true, reason: 'timeout', rank: 0, worldSize: 2, timeoutMs: 1500 });
    expect(error.operation).toMatch(/opening the gloo group/);
  });
});

describe('the store', () => {
  it('shares values and counters', async () => {
    const other = await TcpStore.open({ host: '127.0.0.1', port: store.port, timeoutMs: 5000 });
    const waiting = other.getText('greeting');
    await store.set('greeting', 'héllo');
    expect(await waiting).toBe('héllo');
    await store.set('bytes', new Uint8Array([0, 255, 7]));
    expect([...(await other.get('bytes'))]).toEqual([0, 255, 7]);
    expect(await store.add('n', 2)).toBe(2);
    expect(await other.add('n', 5)).toBe(7);
    expect(await store.has('greeting')).toBe(true);
    expect(await store.delete('greeting')).toBe(true);
    expect(await other.has('greeting')).toBe(false);
    await other.close();
    expect(() => other.port).toThrow(/closed/);
  });

  it('says that nobody serves it', async () => {
    const { error } = await startRank<Failure>('unserved', 0, 1);
    expect(error).toMatchObject({ typed: true, reason: 'timeout', timeoutMs: 1000 });
    expect(error.message).toContain('joining the store at 127.0.0.1:9');
    expect(error.message).not.toContain('frame #');
  });

  it('waits for a key with a limit', async () => {
    const { error } = await startRank<Failure>('late', 0, 1);
    expect(error).toMatchObject({ typed: true, reason: 'timeout', timeoutMs: 300, operation: "store get 'never'" });
  });

  it('refuses what cannot be right', async () => {
    await expect(ProcessGroup.open(store, { rank: 2, worldSize: 2 })).rejects.toThrow(/rank 2 is not one of 2/);
    expect(groupBackends()).toContain('gloo');
    if (!groupBackends().includes('nccl'))
      await expect(ProcessGroup.open(store, { rank: 0, worldSize: 1, backend: 'nccl' })).rejects.toThrow(/no NCCL/);
  });
});
