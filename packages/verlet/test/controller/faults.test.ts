import { spawn } from 'node:child_process';
import net from 'node:net';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { launchGroup, processLauncher, type WorkerError } from '../../src/controller/index.js';
import { RankServer } from '../../src/controller/launchers/rank-server.js';
import { encodeFrame, packPayload } from '../../src/controller/transport/index.js';
import { ScriptedWorker } from './scripted-worker.js';

const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};

async function expectGone(pids: readonly number[]): Promise<void> {
  await expect.poll(() => pids.filter(isAlive), { timeout: 20_000, interval: 50 }).toEqual([]);
}

async function launchTwo(settings: Parameters<typeof processLauncher>[0] = {}) {
  const launcher = processLauncher({ onOutput: () => {}, ...settings });
  const group = await launchGroup(ScriptedWorker, {
    config: { name: 'x' },
    launcher,
    worldSize: 2,
    timeoutSeconds: 60,
  });
  return { group, pids: (await group.describe()).map(({ pid }) => pid) };
}

it('names the rank that was killed in a collective, with its last words, and ends the other', async () => {
  const { group, pids } = await launchTwo();
  const error = (await group.die(1).catch((thrown) => thrown)) as WorkerError;
  expect(error).toMatchObject({ name: 'WorkerError', failure: 'died', rank: 1, method: 'die' });
  expect(error.message).toContain('was ended by SIGKILL');
  expect(error.workerStack).toContain('last words');
  await expectGone(pids);
  await expect(group.describe()).rejects.toBe(error);
  await group.close();
});

it('names the rank that stands still, not the one that waits for it', async () => {
  const { group, pids } = await launchTwo({ heartbeatMs: 100 });
  const error = (await group.hangInCollective(1).catch((thrown) => thrown)) as WorkerError;
  expect(error).toMatchObject({ failure: 'hung', rank: 1, method: 'hangInCollective' });
  expect(error.message).toMatch(
    /no answer within 2500 ms; rank 0 waits for it in a collective; .*trainer\.worker_timeout/,
  );
  await expectGone(pids);
  await group.close();
});

it('notices a rank that ends between calls', async () => {
  const { group, pids } = await launchTwo();
  await group.dieLater(0);
  await expectGone(pids);
  await expect(group.describe()).rejects.toMatchObject({ failure: 'died', rank: 0, message: /ended with code 3/ });
  await group.close();
});

it('takes a rank without a sign of life for dead', async () => {
  const { group, pids } = await launchTwo({ heartbeatMs: 50, heartbeatTimeoutMs: 2000 });
  process.kill(pids[1]!, 'SIGSTOP');
  await expect(group.describe()).rejects.toMatchObject({ failure: 'died', rank: 1, message: /no sign of life/ });
  await expectGone(pids);
  await group.close();
});

it('does not take its own standstill for the death of others', async () => {
  const { group } = await launchTwo({ heartbeatMs: 50, heartbeatTimeoutMs: 1000 });
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2500);
  expect(await group.describe()).toHaveLength(2);
  await group.close();
});

it.each(['idle', 'stuck'])('leaves no rank behind when the controller is killed, ranks %s', async (scenario) => {
  const program = fileURLToPath(new URL('./controller-program.ts', import.meta.url));
  const controller = spawn(process.execPath, ['--import', import.meta.resolve('tsx'), program, scenario], {
    stdio: ['ignore', 'pipe', 'inherit'],
    timeout: 60_000,
    killSignal: 'SIGKILL',
  });
  const pids = await new Promise<number[]>((resolve, reject) => {
    createInterface({ input: controller.stdout }).once('line', (line) => resolve(JSON.parse(line) as number[]));
    controller.once('exit', () => reject(new Error('the controller ended early')));
  });
  expect(pids.filter(isAlive)).toHaveLength(2);
  controller.kill('SIGKILL');
  await expectGone(pids);
});

it('does not talk to strangers', async () => {
  const server = await RankServer.open(
    { worldSize: 1, device: 'cpu', timeoutMs: 300, sharedMemory: false },
    { heartbeatTimeoutMs: 1000 },
  );
  const say = (method: string, value: unknown): Promise<void> =>
    new Promise((resolve) => {
      const socket = net.connect(server.address.slice('unix:'.length));
      const header = packPayload({ kind: 'notify', method, args: [value] }).header;
      for (const part of encodeFrame({ header, attachments: [] })) socket.write(part);
      socket.resume();
      socket.on('error', () => {});
      socket.on('close', () => resolve());
    });
  // Each of these connections is closed by the server.
  await say('hello', { rank: 0, token: 'guessed', part: 'calls', pid: 1 });
  await say('hello', { rank: 5, token: server.token, part: 'calls', pid: 1 });
  await say('hello', 'x'.repeat(10_000));
  await say('heartbeat', true);
  await expect(
    server.start({ roles: [], device: 'cpu', backend: 'gloo', collectiveTimeoutMs: 1 }),
  ).rejects.toMatchObject({
    failure: 'not started',
    rank: 0,
    message: /did not call the controller within 300 ms/,
  });
  await server.close();
});
