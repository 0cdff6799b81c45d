import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { PassThrough, Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, it } from 'vitest';
import { chatCommand } from '../../src/cli/commands/chat.js';
import { runCommandLine } from '../../src/cli/frame.js';
import { makeTinyModel, temporaryFolder } from './tiny-model.js';

const root = temporaryFolder('chat');
let model: string;
beforeAll(async () => {
  model = await makeTinyModel(path.join(root, 'model'));
});

async function chat(lines: readonly string[], ...more: string[]) {
  const output = new PassThrough();
  const noted: string[] = [];
  const io = { print: () => {}, note: (text: string) => noted.push(text) };
  const command = chatCommand({ input: Readable.from(lines.map((line) => `${line}\n`)), output });
  const words = ['chat', model, '--device', 'cpu', '--max-tokens', '6', ...more];
  const exitCode = await runCommandLine(words, { io, load: async () => command });
  output.end();
  return { exitCode, text: Buffer.concat(await output.toArray()).toString('utf8'), noted: noted.join('\n') };
}

describe('verlet chat', () => {
  it('answers every line, the same for the same seed, and remembers', async () => {
    const once = await chat(['Hello', 'Again']);
    expect(once.exitCode).toBe(0);
    expect(once.text).not.toBe('');
    expect((await chat(['Hello', 'Again'])).text).toBe(once.text);
    const greedy = ['--temperature', '0'];
    const first = (await chat(['Hello'], ...greedy)).text;
    const alone = (await chat(['Again'], ...greedy)).text;
    const together = (await chat(['Hello', 'Again'], ...greedy)).text;
    const apart = (await chat(['Hello', '/reset', 'Again'], ...greedy)).text;
    expect(together.startsWith(first)).toBe(true);
    expect(apart).toBe(first + alone);
  });

  it('shows log-probabilities on request', async () => {
    const { text } = await chat(['Hello'], '--logprobs', '2', '--temperature', '0');
    const tokens = text
      .split('\n')
      .filter((line) => /^ {2}".*" +-?\d+\.\d{4} +\d+\.\d% {2}\| ".*% {2}".*%$/.test(line));
    expect(tokens.length).toBeGreaterThan(0);
    expect(text).toMatch(/ {2}sum -\d+\.\d{4}, mean -\d/);
    expect((await chat(['/logprobs', 'Hello', '/logprobs', 'Hello'])).text.match(/ {2}sum /g)).toHaveLength(1);
  });

  it('takes commands and survives mistakes', async () => {
    const { exitCode, noted } = await chat(['/nothing', '/logprobs many', '', 'x '.repeat(600), '/exit', 'Hello']);
    expect(exitCode).toBe(0);
    expect(noted).toContain('there is no /nothing');
    expect(noted).toContain('/logprobs takes a whole number');
    expect(noted).toMatch(/has \d+ tokens, the model takes 512; \/reset/);
    expect((await chat(['Once upon'], '--raw')).exitCode).toBe(0);
    expect((await chat([], '--logprobs', '50')).exitCode).toBe(2);
    expect((await chat(['Hello'], '--template-kwargs', '[]')).exitCode).toBe(2);
  });

  it('works with piped standard input', () => {
    const main = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url));
    const words = [main, 'chat', model, '--device', 'cpu', '--max-tokens', '4', '--temperature', '0'];
    const { status, stdout, stderr } = spawnSync(process.execPath, words, { input: 'Hello\n', timeout: 60_000 });
    expect(status, String(stderr)).toBe(0);
    expect(String(stdout)).toMatch(/\n$/);
  });
});

const python = process.env.VERLET_PYTHON ?? 'python3';
const hasTerminals = spawnSync(python, ['-c', 'import pty'], { timeout: 20_000 }).status === 0;
if (!hasTerminals) console.warn(`the chat in a terminal is not tested: ${python} has no module pty`);

describe.skipIf(!hasTerminals)('verlet chat in a terminal', () => {
  /** Pairs of what to wait for and what to type then; a "+" in front looks at what comes from now on only. */
  let endless: string;
  beforeAll(async () => {
    endless = await makeTinyModel(path.join(root, 'endless'), { positions: 65_536 });
  });
  function inTerminal(steps: readonly [string, string][], ...more: string[]) {
    const main = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url));
    const script = path.join(import.meta.dirname, 'terminal.py');
    const words = [process.execPath, main, 'chat', endless, '--device', 'cpu', ...more];
    const { status, stdout, stderr } = spawnSync(python, [script, JSON.stringify(steps), ...words], {
      encoding: 'utf8',
      timeout: 90_000,
      env: { ...process.env, XDG_STATE_HOME: path.join(root, 'state'), TERM: 'xterm', OMP_NUM_THREADS: '1' },
    });
    expect(status, stderr).toBe(0);
    return JSON.parse(stdout) as { shown: string; exitCode: number };
  }
  const [ctrlC, ctrlD, up] = ['\x03', '\x04', '\x1b[A'];

  it('Ctrl-C ends an answer, clears a line, and leaves when pressed twice on an empty one', () => {
    // A greedy answer of this model repeats itself up to the limit, which is a minute away.
    const { shown, exitCode } = inTerminal(
      [
        ['> ', 'Hello\r'],
        ['Hello\\s+\\S', ctrlC],
        ['\\(interrupted\\)[\\s\\S]*> ', 'half a line'],
        ['half a line', ctrlC],
        ['+> ', ctrlC],
        ['once more', ctrlC],
      ],
      ...['--max-tokens', '50000', '--max-model-length', '60000', '--temperature', '0'],
    );
    expect(shown).toContain('(interrupted)');
    expect(exitCode).toBe(0);
  });

  it('takes a paste as one message, brings back the history of an earlier chat, and ends with Ctrl-D', () => {
    const pasted = '\x1b[200~first\nsecond\x1b[201~';
    const first = inTerminal([
      ['> ', pasted],
      ['first.second', `${ctrlC}`],
      ['+> ', 'one\\\r'],
      ['\\. ', `two${ctrlC}`],
      ['+> ', '/system remembered\r'],
      ['a new conversation with', ctrlD],
    ]);
    expect(first.exitCode).toBe(0);
    expect(first.shown).toContain('first\u2424second');
    expect(first.shown).not.toContain('200~');
    const second = inTerminal([
      ['> ', up],
      ['/system remembered', ctrlC],
      ['+> ', '/exit\r'],
    ]);
    expect(second.exitCode).toBe(0);
  });
});
