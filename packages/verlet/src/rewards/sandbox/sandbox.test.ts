import { spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { createSandbox, describeSandbox, installCommand } from './index.js';

const available = await describeSandbox();

/** A service with SandboxFusion's contract. `answer` sees each request. */
async function withService<T>(
  answer: (body: Record<string, unknown>, count: number) => [number, unknown] | 'hang',
  use: (url: string) => Promise<T>,
): Promise<T> {
  let count = 0;
  const server = createServer(async (request: IncomingMessage, response) => {
    let text = '';
    for await (const chunk of request) text += chunk;
    count += 1;
    const reply = answer(JSON.parse(text), count);
    if (reply === 'hang') return;
    response.writeHead(reply[0], { 'content-type': 'application/json' }).end(JSON.stringify(reply[1]));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  try {
    return await use(`http://127.0.0.1:${(server.address() as AddressInfo).port}/run_code`);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

const finished = (run: object) =>
  [200, { status: 'Success', run_result: { status: 'Finished', return_code: 0, execution_time: 0.01, ...run } }] as [
    number,
    unknown,
  ];

test('a remote service: request shape, retries, status', async () => {
  const seen: Record<string, unknown>[] = [];
  await withService(
    (body, count) => {
      seen.push(body);
      return count < 3 ? [503, {}] : finished({ stdout: '4\n', stderr: '' });
    },
    async (url) => {
      const sandbox = await createSandbox({ remote: { url, backoffMs: 1 } });
      const result = await sandbox.run({
        language: 'python',
        code: 'print(4)',
        stdin: 'x',
        limits: { timeoutMs: 3_000, memoryMb: 64 },
      });
      expect(result).toMatchObject({ status: 'ok', stdout: '4\n', exitCode: 0, durationMs: 10 });
      expect(seen).toHaveLength(3);
      expect(seen[0]).toMatchObject({
        code: 'print(4)',
        language: 'python',
        stdin: 'x',
        run_timeout: 3,
        memory_limit_MB: 64,
      });
      await expect(sandbox.run({ language: 'python', code: '', tests: 'assert 1' })).rejects.toThrow(/assert tests/);
    },
  );
});

test('a remote service that is broken, slow or refuses is an error, never a score', async () => {
  const run = (url: string) =>
    createSandbox({ remote: { url, backoffMs: 1, attempts: 2, overheadMs: 100 } }).then((sandbox) =>
      sandbox.run({ language: 'python', code: '1', limits: { timeoutMs: 100 } }),
    );
  await withService(
    () => 'hang',
    async (url) => await expect(run(url)).rejects.toThrow(/no result after 2 attempts/),
  );
  await withService(
    () => [400, { detail: 'bad' }],
    async (url) => await expect(run(url)).rejects.toThrow(/HTTP 400/),
  );
  await withService(
    () => [200, { status: 'SandboxError', message: 'disk full' }],
    async (url) => await expect(run(url)).rejects.toThrow(/disk full/),
  );
  await withService(
    () => [200, { status: 'Failed', run_result: { status: 'TimeLimitExceeded', stdout: '', stderr: '' } }],
    async (url) => expect((await run(url)).status).toBe('timeout'),
  );
});

test.skipIf(!existsSync('/usr/bin/python3'))('a function call through a remote service really runs', async () => {
  // The service of this test runs the code in the local sandbox: the driver text is executed, not imagined.
  const local = await createSandbox({ size: 1, limits: { timeoutMs: 20_000 } });
  const server = createServer(async (request, response) => {
    let text = '';
    for await (const chunk of request) text += chunk;
    const { code, language } = JSON.parse(text);
    const result = await local.run({ language: language === 'python' ? 'python' : 'javascript', code });
    response.end(
      JSON.stringify(finished({ stdout: result.stdout, stderr: result.stderr, return_code: result.exitCode })[1]),
    );
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const remote = await createSandbox({
    remote: { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/` },
  });
  try {
    const code = 'print("noise")\ndef add(a, b): return (a + b, "é")';
    expect((await remote.run({ language: 'python', code, call: { name: 'add', args: [2n ** 70n, 1] } })).value).toEqual(
      [2n ** 70n + 1n, 'é'],
    );
    expect(
      (
        await remote.run({
          language: 'python',
          code: 'import os\ndef add(a, b): os._exit(0)',
          call: { name: 'add', args: [1, 1] },
        })
      ).status,
    ).toBe('error');
    const javascript = {
      language: 'javascript',
      code: 'const add = (a, b) => a + b',
      call: { name: 'add', args: [1, 2] },
    } as const;
    expect((await remote.run(javascript)).value).toBe(3);
  } finally {
    server.close();
    server.closeAllConnections();
    await local.close();
  }
});

test('statuses say which limit was hit', async () => {
  const sandbox = await createSandbox({ size: 2, limits: { timeoutMs: 20_000 } });
  const status = async (code: string, limits = {}) => (await sandbox.run({ language: 'python', code, limits })).status;
  expect(await status('print(1)')).toBe('ok');
  expect(await status('raise ValueError()')).toBe('error');
  expect(await status('while True: pass', { timeoutMs: 200 })).toBe('timeout');
  expect(await status('x = bytearray(10 ** 9)', { memoryMb: 128 })).toBe('memory');
  expect(await status('print("x" * 10 ** 6)', { outputBytes: 1_000 })).toBe('output-limit');
  await expect(sandbox.run({ language: 'python', code: '', limits: { timeoutMs: -1 } })).rejects.toThrow(/timeoutMs/);
  await expect(sandbox.run({ language: 'ruby' as 'python', code: '' })).rejects.toThrow(/ruby/);
  await sandbox.close();
});

test('a Python program in WebAssembly finds the interpreter as it was at the start, whatever the one before did', async () => {
  const sandbox = await createSandbox({ level: 'wasm', size: 1, limits: { timeoutMs: 60_000 } });
  const changes = `import builtins, json, decimal, sys, os, random, collections
builtins.len = lambda value: 7
json.dumps = json.JSONEncoder.encode = lambda *rest: 'spoilt'
collections.Counter.most_common = None
decimal.getcontext().prec = 3
random.seed(1)
sys.setrecursionlimit(60)
sys.path.insert(0, '/tmp')
os.environ['LEFT'] = 'x'
os.mkdir('/tmp/folder')
handle = open('/tmp/folder/json.py', 'w')
handle.write('1/0')
print(len([]))`;
  const look = `import json, decimal, sys, os, collections
print(json.dumps([len([1]), decimal.getcontext().prec, sys.getrecursionlimit() > 60, os.listdir('/tmp'), os.environ.get('LEFT'),
  collections.Counter('aab').most_common(1), '/tmp' in sys.path]))`;
  const stdout = async (code: string) => (await sandbox.run({ language: 'python', code })).stdout;
  const before = await stdout(look);
  expect(before).toBe('[1, 28, true, [], null, [["a", 2]], false]\n');
  for (let round = 0; round < 3; round += 1) {
    expect(await stdout(changes)).toBe('7\n');
    expect(await stdout(look)).toBe(before);
  }
  await sandbox.close();
});

test.skipIf(available.javascript.level !== 'bubblewrap')('the same random numbers in every box', async () => {
  const code = { python: 'import random\nprint(random.random())', javascript: 'console.log(Math.random())' };
  const draw = async (language: 'python' | 'javascript') => {
    const sandbox = await createSandbox({ level: 'bubblewrap', size: 1, limits: { timeoutMs: 60_000 } });
    const [first, second] = [
      await sandbox.run({ language, code: code[language] }),
      await sandbox.run({ language, code: code[language] }),
    ];
    await sandbox.close();
    expect(first.stdout).toMatch(/^0\.\d+\n$/);
    expect(second.stdout).toBe(first.stdout);
    return first.stdout;
  };
  for (const language of ['python', 'javascript'] as const) expect(await draw(language)).toBe(await draw(language));
});

test.skipIf(process.platform !== 'linux')('a box that something else ends costs its program nothing', async () => {
  const sandbox = await createSandbox({ size: 1, limits: { timeoutMs: 60_000 } });
  const children = () =>
    readFileSync(`/proc/self/task/${process.pid}/children`, 'utf8').trim().split(' ').filter(Boolean).map(Number);
  const before = new Set(children());
  const running = sandbox.run({ language: 'python', code: 'import time\ntime.sleep(1)\nprint("through")' });
  await expect.poll(() => children().filter((pid) => !before.has(pid)).length, { timeout: 20_000 }).toBe(1);
  await new Promise((resolve) => setTimeout(resolve, 400));
  for (const pid of children()) if (!before.has(pid)) process.kill(pid, 'SIGKILL');
  expect(await running).toMatchObject({ status: 'ok', stdout: 'through\n' });
  await sandbox.close();
});

test('no sandbox: a refusal with the command that installs one', async () => {
  const { PATH } = process.env;
  expect(installCommand('id=fedora')).toContain('dnf install -y bubblewrap');
  expect(installCommand('id=debian')).toContain('apt-get install -y bubblewrap');
  if (available.python.level === 'bubblewrap') {
    process.env.VERLET_SANDBOX_PYTHON = '/nonexistent/python';
    await expect(createSandbox({ level: 'bubblewrap' })).rejects.toThrow(/Install bubblewrap with: .*bubblewrap/);
    delete process.env.VERLET_SANDBOX_PYTHON;
  } else await expect(createSandbox({ level: 'bubblewrap' })).rejects.toThrow(/Install bubblewrap with: .*bubblewrap/);
  expect(process.env.PATH).toBe(PATH);
});

const built = fileURLToPath(new URL('../../../dist/rewards/sandbox/index.js', import.meta.url));
const needsBuild = !existsSync(built) || process.platform !== 'linux';
if (needsBuild) console.log('a killed trainer is not tried: needs Linux and the built package');
test.skipIf(needsBuild).each(['bubblewrap', 'wasm'] as const)(
  'a trainer killed with SIGKILL leaves no process (%s)',
  async (level) => {
    if (level === 'bubblewrap' && available.python.level !== 'bubblewrap')
      return console.log('skipped: no bubblewrap here');
    const code = `import { createSandbox } from ${JSON.stringify(built)};
import { readFileSync } from 'node:fs';
const sandbox = await createSandbox({ level: '${level}', size: 1, limits: { timeoutMs: 60000 } });
await sandbox.run({ language: 'python', code: 'print(1)' });
sandbox.run({ language: 'python', code: 'while True: pass' });
setTimeout(() => console.log(readFileSync('/proc/self/task/' + process.pid + '/children', 'utf8')), 300);`;
    const trainer = spawn(process.execPath, ['--input-type=module', '-e', code], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const pids: string = await new Promise((resolve) =>
      trainer.stdout.once('data', (data) => resolve(String(data).trim())),
    );
    expect(pids).not.toBe('');
    trainer.kill('SIGKILL');
    const alive = () =>
      pids.split(/\s+/).filter((pid) => existsSync(`/proc/${pid}/exe`) && existsSync(`/proc/${pid}/fd/0`));
    await expect.poll(alive, { timeout: 10_000 }).toEqual([]);
  },
);
