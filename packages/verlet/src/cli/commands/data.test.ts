import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { trainBpe } from '../../models/tokenizer/index.js';
import { runCommandLine } from '../frame.js';
import { command } from './data.js';

const folder = mkdtempSync(join(tmpdir(), 'verlet-data-command-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function verlet(...words: string[]) {
  const printed: string[] = [];
  const noted: string[] = [];
  const io = { print: (text: string) => printed.push(text), note: (text: string) => noted.push(text) };
  const exitCode = await runCommandLine(['data', ...words], { io, load: async () => command });
  return { exitCode, printed: printed.join('\n'), noted: noted.join('\n') };
}

it('converts, prepares and inspects files', async () => {
  const conversations = join(folder, 'chat.json');
  const turns = [
    { from: 'user', value: 'Hello' },
    { from: 'assistant', value: 'Hi' },
  ];
  writeFileSync(conversations, JSON.stringify([{ system: 'S', conversations: turns }]));
  const converted = join(folder, 'chat.parquet');
  expect(await verlet('convert', conversations, '-o', converted)).toMatchObject({
    exitCode: 0,
    printed: `1 rows from 1 conversations in ${converted}`,
  });

  await trainBpe(['Hello there'], { vocabSize: 270, folder: join(folder, 'model') });
  const seen = await verlet('inspect', converted, '--model', join(folder, 'model'));
  expect(seen.exitCode).toBe(0);
  expect(seen.printed).toContain('prompt                list<struct<role: string, content: string>>');
  expect(seen.printed).toContain('[user]\n    Hello');
  expect(seen.printed).toContain('<|im_start|>assistant');
  expect(seen.printed).toMatch(/prompt length in tokens \(1 rows measured\)\n.*█ 1\n.*median/);

  const questions = join(folder, 'train.jsonl');
  writeFileSync(questions, '{"question": "1+1?", "answer": "#### 2"}\n');
  const prepared = join(folder, 'gsm8k.parquet');
  expect((await verlet('prepare', 'gsm8k', questions, '-o', prepared, '--agent-name', 'tool_agent')).exitCode).toBe(0);
  expect((await verlet('inspect', prepared)).printed).toContain('agent_name: "tool_agent"');
});

it('says what is wrong, and with which file', async () => {
  const missing = await verlet('inspect', join(folder, 'gone.parquet'));
  expect(missing.exitCode).toBe(1);
  expect(missing.noted).toContain('gone.parquet: there is no such file');
  const broken = join(folder, 'broken.parquet');
  writeFileSync(broken, 'PAR1 but not really');
  expect((await verlet('inspect', broken)).noted).toContain('the Parquet footer cannot be read');
  expect((await verlet('convert', broken)).exitCode).toBe(2);
  const short = join(folder, 'short.jsonl');
  writeFileSync(short, '{"prompt": "x"}');
  expect(await verlet('inspect', short, '--row', '9')).toMatchObject({
    exitCode: 1,
    noted: `verlet: ${short}: row 9 is asked for, but there are 1`,
  });
});
