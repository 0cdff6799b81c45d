import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { fileURLToPath } from 'node:url';
import { liveTensors, tensor } from '@verlet/torch';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  createColocatedWorkers,
  dealRows,
  inlineLauncher,
  type Launcher,
  launchGroup,
  processLauncher,
  registerDispatchMode,
  WorkerError,
  type WorkerGroup,
} from '../../src/controller/index.js';
import { DataProto } from '../../src/protocol/index.js';
import { ScriptedWorker } from './scripted-worker.js';

const launchers: [string, Launcher, number][] = [
  ['inline', inlineLauncher, 1],
  ['inline', inlineLauncher, 2],
  ['process', processLauncher({ onOutput: () => {} }), 1],
  ['process', processLauncher({ onOutput: () => {} }), 2],
];

function rows(count: number, width = 2): DataProto {
  return DataProto.fromDict({
    tensors: {
      x: tensor(Array.from({ length: count }, (_, row) => Array<number>(width).fill(row))),
      response_mask: tensor(
        Array.from({ length: count }, () => [1]),
        { dtype: 'int64' },
      ),
    },
    nonTensors: {
      uid: Array.from({ length: count }, (_, row) => `u${row}`),
      trajectory: Array.from({ length: count }, () => ({ heavy: true })),
    },
  });
}

describe.each(launchers)('%s launcher', (_name, launcher, worldSize) => {
  describe(`${worldSize} ranks`, () => {
    let group: WorkerGroup<typeof ScriptedWorker>;
    const ranks = [...Array(worldSize).keys()];
    beforeAll(async () => {
      group = await launchGroup(ScriptedWorker, {
        config: { name: 'tim' },
        launcher,
        worldSize,
        timeoutSeconds: 60,
      });
    });
    afterAll(() => group.close());

    it('builds one worker per rank that keeps its state', async () => {
      const described = await group.describe();
      expect(described.map(({ name, rank, worldSize, calls }) => ({ name, rank, worldSize, calls }))).toEqual(
        ranks.map((rank) => ({ name: 'tim', rank, worldSize, calls: 1 })),
      );
      expect((await group.describe()).every(({ calls }) => calls === 2)).toBe(true);
      if (launcher.name === 'process')
        for (const { rank, env } of described)
          expect(env).toEqual([String(rank), String(worldSize), String(rank), '127.0.0.1']);
    });

    it('dispatches to all, each its own, rank zero, and by a mode of its own', async () => {
      expect(await group.nothing()).toBeUndefined();
      expect(
        await group.add(
          ranks,
          ranks.map(() => 5),
        ),
      ).toEqual(ranks.map((rank) => rank + 5 + 100 * rank));
      expect(await group.first('hello')).toBe('hello from 0');
      expect(await group.shout('one two three')).toBe(['ONE', 'TWO'].slice(0, worldSize).join(' '));
      expect(await group.executeAll('add', 1, 2)).toEqual(ranks.map((rank) => 3 + 100 * rank));
      expect(await group.executeRankZero('add', 1, 2)).toBe(3);
      await expect(group.add([1], [1, 2, 3])).rejects.toThrow(/argument [12] must be an array with one entry for each/);
    });

    it.each([1, 2, 4, 5])('computes %d rows in parallel and gives them back in order', async (count) => {
      const before = liveTensors().count;
      const batch = rows(count);
      const output = await group.double(batch, 3);
      expect(output.tensor('doubled').toNested()).toEqual(
        Array.from({ length: count }, (_, row) => [row * 3, row * 3]),
      );
      const share = Math.ceil(count / worldSize);
      expect(output.column('by')).toEqual(Array.from({ length: count }, (_, row) => `u${row}@${row % worldSize}`));
      const travelled = launcher.name === 'process' ? 'uid' : 'uid,trajectory';
      expect(output.metaInfo.metrics).toEqual({ rows: ranks.map(() => share), columns: ranks.map(() => travelled) });
      expect(batch.length).toBe(count);
      batch.dispose();
      output.dispose();
      expect(liveTensors().count).toBe(before);
    });

    it.each([1, 3, 4])('lets %d rows become other numbers of rows, without adding any', async (count) => {
      const batch = rows(count);
      const even = [0, 0, 2, 2].filter((row) => row < count).map((row) => `u${row}`);
      expect((await group.echo(batch)).column('uid')).toEqual(even);
      batch.dispose();
    });

    it('brings large batches', async () => {
      const before = liveTensors().count;
      const batch = rows(4, 200_000);
      const output = await group.double(batch);
      const sums = output.tensor('doubled').sum(-1);
      expect(sums.toArray()).toEqual([0, 400_000, 800_000, 1_200_000]);
      for (const made of [batch, output, sums]) made.dispose();
      expect(liveTensors().count).toBe(before);
    });

    it('deals rows of an update out in turn; added rows teach nothing', async () => {
      const batch = rows(5);
      const { metrics } = (await group.learn(batch)).metaInfo;
      expect(metrics).toEqual(
        worldSize === 1
          ? { uids: ['u0,u1,u2,u3,u4'], learnt: [1, 1, 1, 1, 1] }
          : { uids: ['u0,u2,u4', 'u1,u3,u0'], learnt: [1, 1, 1, 1, 1, 0] },
      );
      expect(batch.tensor('response_mask').toArray()).toEqual([1, 1, 1, 1, 1]);
      batch.dispose();
    });

    if (launcher.name === 'process' || worldSize === 1)
      it('adds things up over ranks', async () => {
        for (const { sum, tensors } of await group.total()) {
          expect(sum).toBe(worldSize === 1 ? 1 : 3);
          expect(tensors).toEqual(
            worldSize === 1 ? [[0, 1], [0, 2], [0], [1, 3, 2, 4]] : [[1, 2], [1, 4], [10], [2, 6, 4, 8]],
          );
        }
      });
  });

  // Starting processes is slow: two ranks show what one would.
  if (launcher.name === 'process' && worldSize === 1) return;

  it('names rank, method and the stack of what threw, and stops all ranks', async () => {
    const group = await launchGroup(ScriptedWorker, { config: { name: 'x' }, launcher, worldSize, timeoutSeconds: 60 });
    const guilty = worldSize - 1;
    const error = (await group.fail(guilty).catch((thrown) => thrown)) as WorkerError;
    expect(error).toBeInstanceOf(WorkerError);
    expect(error).toMatchObject({ failure: 'threw', rank: guilty, method: 'fail', workerErrorName: 'RangeError' });
    expect(error.message).toContain(
      `rank ${guilty} of ${worldSize} failed in fail: RangeError: row 7 of rank ${guilty}`,
    );
    expect(error.workerStack).toMatch(/ScriptedWorker\.fail .*scripted-worker\.ts/);
    await expect(group.describe()).rejects.toBe(error);
    await group.close();
  });

  it('gives up at the deadline', async () => {
    const group = await launchGroup(ScriptedWorker, { config: { name: 'x' }, launcher, worldSize, timeoutSeconds: 60 });
    await expect(group.hang(0)).rejects.toMatchObject({ failure: 'hung', rank: 0, method: 'hang' });
    await group.close();
  });

  it('says that a worker does not start', async () => {
    const start = launchGroup(ScriptedWorker, {
      config: { name: 'x', failToStart: true },
      launcher,
      worldSize,
      timeoutSeconds: 60,
    });
    await expect(start).rejects.toThrow(/does not want to start/);
  });

  it('leaves no folders behind', () => {
    const own = (name: string) => name.startsWith(`verlet-ranks-${process.pid}-`);
    for (const root of ['/dev/shm', tmpdir()]) expect(readdirSync(root).filter(own)).toEqual([]);
  });
});

it('deals rows evenly, one of every round to each rank', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 4 }),
      fc.integer({ min: 1, max: 16 }),
      fc.infiniteStream(fc.integer({ min: 1, max: 1000 })),
      (worldSize, rounds, stream) => {
        const work = [...stream.take(worldSize * rounds)];
        const shares = dealRows(work.length, worldSize, work);
        for (const share of shares)
          expect(share.map((row) => Math.floor(row / worldSize))).toEqual([...Array(rounds).keys()]);
        expect(shares.flat().sort((a, b) => a - b)).toEqual([...work.keys()]);
        const loads = shares.map((share) => share.reduce((sum, row) => sum + work[row]!, 0));
        expect(Math.max(...loads) - Math.min(...loads)).toBeLessThanOrEqual(Math.max(...work));
      },
    ),
  );
  expect(() => dealRows(3, 2)).toThrow(/3 rows do not divide among 2 ranks/);
});

it('puts several roles into one process', async () => {
  const { actor, critic } = await createColocatedWorkers(
    {
      actor: { workerClass: ScriptedWorker, config: { name: 'actor' } },
      critic: { workerClass: ScriptedWorker, config: { name: 'critic' } },
    },
    { launcher: processLauncher({ onOutput: () => {} }), worldSize: 2, timeoutSeconds: 60 },
  );
  const [a, c] = [await actor.describe(), await critic.describe()];
  expect(a.map(({ name, pid }) => [name, pid])).toEqual(c.map(({ pid }) => ['actor', pid]));
  expect(c.map(({ name }) => name)).toEqual(['critic', 'critic']);
  expect(new Set(a.map(({ pid }) => pid)).size).toBe(2);
  await actor.close();
});

it('keeps user code inline', async () => {
  const extensions = { hook: () => 'hooked' };
  const group = await launchGroup(ScriptedWorker, { config: { name: 'x' }, extensions });
  expect(await group.executeRankZero('hooked')).toBe('hooked');
  await group.close();
  await expect(launchGroup(ScriptedWorker, { config: { name: 'x' }, extensions, launcher: 'process' })).rejects.toThrow(
    /'hook' is code of this process/,
  );
});

it('refuses tables that do not fit', async () => {
  class Wrong extends ScriptedWorker {
    static override readonly methods = { missing: { dispatch: 'dp' } } as never;
  }
  await expect(launchGroup(Wrong, { config: { name: 'x' } })).rejects.toThrow(/Wrong registers 'missing'/);
  class Unknown extends ScriptedWorker {
    static override readonly methods = { first: { dispatch: 'nowhere' } } as never;
  }
  await expect(launchGroup(Unknown, { config: { name: 'x' } })).rejects.toThrow(/no dispatch mode 'nowhere'/);
  expect(() => registerDispatchMode('dp', {} as never)).toThrow(/'dp' already/);
  const group = await launchGroup(ScriptedWorker, { config: { name: 'x' } });
  await expect(group.double('text' as never)).rejects.toThrow(/first argument must be a DataProto/);
  await expect(group.wrongResult(new DataProto())).rejects.toThrow(/did not return a DataProto/);
  await group.close();
});

it('types groups by their tables', () => {
  const folder = fileURLToPath(new URL('.', import.meta.url));
  const tsc = fileURLToPath(new URL('../../../../node_modules/typescript/bin/tsc', import.meta.url));
  const { stdout, error } = spawnSync(process.execPath, [tsc, '-p', folder], { encoding: 'utf8', timeout: 90_000 });
  expect(error).toBeUndefined();
  expect(stdout.split('\n').filter((line) => line.includes('test/controller/'))).toEqual([]);
});
