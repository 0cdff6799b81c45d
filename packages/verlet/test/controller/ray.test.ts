import { spawnSync } from 'node:child_process';
import { tensor } from '@verlet/torch';
import { expect, it } from 'vitest';
import { launchGroup, rayLauncher } from '../../src/controller/index.js';
import { DataProto } from '../../src/protocol/index.js';
import { ScriptedWorker } from './scripted-worker.js';

const python = process.env.VERLET_PYTHON ?? 'python3';
const hasRay = spawnSync(python, ['-c', 'import ray'], { timeout: 60_000 }).status === 0;
const reason = `${python} cannot import ray (set VERLET_PYTHON)`;
const launcher = rayLauncher({ numCpus: 2 });
const options = { config: { name: 'ray' }, launcher, worldSize: 2, timeoutSeconds: 100 };

it('places ranks on Ray that compute, reduce and end like children', async ({ skip }) => {
  skip(!hasRay, reason);
  const group = await launchGroup(ScriptedWorker, options);
  const described = await group.describe();
  expect(described.map(({ rank, env }) => [rank, ...env])).toEqual([
    [0, '0', '2', '0', '127.0.0.1'],
    [1, '1', '2', '1', '127.0.0.1'],
  ]);
  const batch = DataProto.fromDict({ tensors: { x: tensor([1, 2, 3]) }, nonTensors: { uid: ['a', 'b', 'c'] } });
  const output = await group.double(batch);
  expect(output.tensor('doubled').toArray()).toEqual([2, 4, 6]);
  batch.dispose();
  output.dispose();
  expect((await group.total()).map(({ sum }) => sum)).toEqual([3, 3]);
  const error = await group.die(1).catch((thrown) => thrown);
  expect(error).toMatchObject({ failure: 'died', rank: 1, method: 'die' });
  await group.close();
  const isAlive = (pid: number): boolean => {
    try {
      return process.kill(pid, 0);
    } catch {
      return false;
    }
  };
  await expect.poll(() => described.filter(({ pid }) => isAlive(pid)), { timeout: 20_000 }).toEqual([]);
});

it('says that there is no Ray', async () => {
  const group = launchGroup(ScriptedWorker, { ...options, launcher: rayLauncher({ python: '/nonexistent/python' }) });
  await expect(group).rejects.toThrow(
    /\/nonexistent\/python cannot be started: .*VERLET_PYTHON to a Python that has Ray/,
  );
});

it('says that the cluster has no room', async ({ skip }) => {
  skip(!hasRay, reason);
  const crowded = rayLauncher({ numCpus: 1, cpusPerRank: 4 });
  const group = launchGroup(ScriptedWorker, { ...options, launcher: crowded, timeoutSeconds: 20 });
  await expect(group).rejects.toThrow(/no room for 2 ranks|did not call the controller/);
});
