import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Box } from './box.js';
import { bubblewrapCommand, bubblewrapGraceMs } from './bubblewrap/command.js';
import { probeBubblewrap } from './bubblewrap/probe.js';
import { createSandbox } from './create.js';
import { javascriptInput, javascriptPrograms } from './javascript-programs.js';
import { defaultLimits, type Sandbox, type SandboxResult } from './types.js';

const probe = await probeBubblewrap();
const limits = { ...defaultLimits, timeoutMs: 30_000 };
const summary = ({ status, stdout, exitCode }: SandboxResult) => ({ status, stdout, exitCode });
const expected = ({ stdout, exitCode = 0 }: { stdout: string; exitCode?: number }) => ({
  status: exitCode === 0 ? 'ok' : 'error',
  stdout,
  exitCode,
});

const boxes = [
  ['forked from a warm Node', probe.options?.nodeFork !== undefined, true],
  ['in a Node of its own', probe.runsNode, false],
] as const;
for (const [name, isPossible, isWarm] of boxes) {
  if (!isPossible) console.log(`JavaScript ${name} is not tried: ${probe.slowNode ?? probe.reasons.join('; ')}`);
  describe.skipIf(!isPossible)(`JavaScript in bubblewrap, ${name}`, () => {
    let box: Box;
    beforeAll(async () => {
      const options = probe.options as NonNullable<typeof probe.options>;
      const command = bubblewrapCommand(isWarm ? options : { ...options, nodeFork: undefined });
      box = await Box.start(command, { graceMs: bubblewrapGraceMs });
    });
    afterAll(() => box.close());
    const run = (code: string) =>
      box.execute({ mode: 'script', language: 'javascript', code, stdin: javascriptInput, limits });

    test('is what it says', async () => {
      const { stdout } = await run('console.log(process.execArgv.includes("--single-threaded"))');
      expect(stdout).toBe(`${isWarm}\n`);
    });
    test.each(javascriptPrograms)('$name', async (program) => {
      expect(summary(await run(program.code))).toEqual(expected(program));
      expect(box.isUsable).toBe(true);
    });
  });
}

describe('JavaScript in QuickJS', () => {
  let sandbox: Sandbox;
  beforeAll(async () => {
    sandbox = await createSandbox({ level: 'wasm', size: 1, limits });
  });
  afterAll(() => sandbox.close());
  test.each(javascriptPrograms.filter((program) => !program.onlyNode))('$name', async (program) => {
    const result = await sandbox.run({ language: 'javascript', code: program.code, stdin: javascriptInput });
    expect(summary(result)).toEqual(expected(program));
  });
});

const canFork = probe.options !== undefined;
if (!canFork) console.log(`what one program knows of another is not tried: ${probe.reasons.join('; ')}`);
describe.skipIf(!canFork)('what a program knows of the one before', () => {
  const word = 'dandelion4711';
  const told = {
    python: `import sys\ntext = sys.stdin.read()\nprint(text)\nprint(text, file=sys.stderr)\n# ${word}`,
    javascript: `const text = require('fs').readFileSync(0, 'utf8'); console.log(text); console.error(text); globalThis.kept = text; // ${word}`,
  };
  // Looks through all of its own writable memory. It never builds the whole word, so it does not find itself.
  const search = `import ctypes
found = 0
for line in open('/proc/self/maps'):
  part = line.split()
  if not part[1].startswith('rw') or part[-1].startswith('[v'): continue
  start, end = (int(edge, 16) for edge in part[0].split('-'))
  memory = ctypes.string_at(start, end - start)
  at = memory.find(b'elion')
  while at >= 0:
    if memory[at + 5] == 52 and memory[at + 6] == 55 and memory[at + 7] == 49: found += 1
    at = memory.find(b'elion', at + 1)
  del memory
print('found' if found else 'nothing')`;

  test('none of its memory holds a word of it', async () => {
    const sandbox = await createSandbox({ level: 'bubblewrap', size: 1, limits });
    try {
      const look = async (before = '') => (await sandbox.run({ language: 'python', code: before + search })).stdout;
      expect(await look(`word = 'dand' + 'elion' + str(4710 + 1)\n`)).toBe('found\n');
      for (const language of ['python', 'javascript'] as const) {
        if (language === 'javascript' && !probe.runsNode) continue;
        const first = await sandbox.run({ language, code: told[language], stdin: word });
        expect(first.stdout).toContain(word);
        expect(await look()).toBe('nothing\n');
      }
    } finally {
      await sandbox.close();
    }
  });
});
