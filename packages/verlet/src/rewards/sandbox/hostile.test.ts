import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { primeCode } from '../scores/code.js';
import type { RewardInput } from '../types.js';
import { createSandbox, describeSandbox } from './create.js';
import { type HostileProgram, hostilePrograms, type Target } from './hostile-programs.js';
import type { Language, Sandbox, SandboxLevel } from './types.js';

const folder = mkdtempSync(join(tmpdir(), 'verlet-hostile-'));
const secret = `secret${Math.random().toString(36).slice(2)}`;
const port = 20_000 + Math.floor(Math.random() * 20_000);
const target: Target = {
  secret,
  secretFile: join(folder, 'secret'),
  secretVariable: 'VERLET_TEST_SECRET',
  port,
  folder,
};
writeFileSync(target.secretFile, secret);
process.env.VERLET_TEST_SECRET = secret;

const honest = {
  python: { script: 'print(int(input()) * 2)', call: 'def double(n): return n * 2' },
  javascript: {
    script: "console.log(Number(require('fs').readFileSync(0, 'utf8')) * 2)",
    call: 'function double(n) { return n * 2; }',
  },
} as const;

let server: Server;
beforeAll(async () => {
  server = createServer((socket) => socket.on('error', () => {}).end(`${secret}\n`));
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
});
afterAll(() => {
  server.close();
  rmSync(folder, { recursive: true });
});

const available = await describeSandbox();

for (const level of ['bubblewrap', 'wasm'] as const) {
  for (const language of ['python', 'javascript'] as const) {
    const isMissing = level === 'bubblewrap' && available[language].level !== 'bubblewrap';
    if (isMissing) {
      console.log(
        `hostile ${language} programs are not tried in bubblewrap: ${available[language].reasons.join('; ')}`,
      );
    }
    describe.skipIf(isMissing)(`hostile ${language} programs at level ${level}`, () => suite(level, language));
  }
}

function suite(level: SandboxLevel, language: Language) {
  let sandbox: Sandbox;
  beforeAll(async () => {
    const limits = { timeoutMs: 1_000, memoryMb: 256 };
    sandbox = await createSandbox({ level: level as 'bubblewrap' | 'wasm', size: 1, limits });
  });
  afterAll(async () => {
    await sandbox.close();
    for (let tries = 0; tries < 100 && descendants().length > 0; tries += 1)
      await new Promise((done) => setTimeout(done, 100));
    expect(descendants()).toEqual([]);
  });

  const score = async (program: Pick<HostileProgram, 'code' | 'through' | 'wants'>, limits = {}) => {
    const outputs = [program.wants === 'secret' ? secret : '4'];
    const asserts = language === 'python' ? 'assert double(2) == 4' : 'assert.strictEqual(double(2), 4)';
    const ground_truth =
      program.through === 'asserts'
        ? { asserts: [asserts] }
        : program.through === 'call'
          ? { inputs: [[2]], outputs: [4], fn_name: 'double' }
          : { inputs: ['2\n'], outputs };
    const input = { data_source: 'codecontests', solution_str: program.code, ground_truth, extra_info: {} };
    return (await primeCode(input as RewardInput, { sandbox, language, limits })).score;
  };

  test('honest programs score 1', async () => {
    // Generous: the first program of a level waits for nothing but itself.
    const limits = { timeoutMs: 20_000 };
    expect(await score({ code: honest[language].script }, limits)).toBe(1);
    expect(await score({ code: honest[language].call, through: 'call' }, limits)).toBe(1);
    expect(await score({ code: honest[language].call, through: 'asserts' }, limits)).toBe(1);
  });

  for (const program of hostilePrograms(language, target)) {
    if (program.onlyBubblewrap && level === 'wasm') continue;
    test(program.name, async () => {
      expect(await score(program)).toBe(0);
      expect(existsSync(join(folder, 'written'))).toBe(false);
      const after = { code: honest[language].script };
      expect(await score(after, { timeoutMs: 20_000 })).toBe(1);
      // What is left is what an idle sandbox has: per box bubblewrap, the zygote, its two servers and a waiting child.
      await expect
        .poll(() => descendants().length, { timeout: 10_000 })
        .toBeLessThanOrEqual(level === 'bubblewrap' ? 10 : 2);
    });
  }
}

/** Processes below this one, however deep. Orphans in a box are adopted by the box, so they count too. */
function descendants(): string[] {
  const children = new Map<number, { pid: number; name: string }[]>();
  if (!existsSync('/proc/self/stat')) return [];
  for (const name of readdirSync('/proc').filter((entry) => /^\d+$/.test(entry))) {
    try {
      const stat = readFileSync(`/proc/${name}/stat`, 'utf8');
      const [state, parent] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
      if (state === 'Z') continue;
      const siblings = children.get(Number(parent)) ?? [];
      children.set(Number(parent), [...siblings, { pid: Number(name), name: stat.slice(stat.indexOf('(')) }]);
    } catch {
      // Ended while we looked.
    }
  }
  const below = (pid: number): string[] =>
    (children.get(pid) ?? []).flatMap((child) => [child.name, ...below(child.pid)]);
  return below(process.pid);
}
