import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { writeParquet } from '../../data/index.js';
import { runCommandLine } from '../frame.js';
import { command } from './reward.js';

const folder = mkdtempSync(join(tmpdir(), 'verlet-reward-command-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function verlet(...words: string[]) {
  const printed: string[] = [];
  const noted: string[] = [];
  const io = { print: (text: string) => printed.push(text), note: (text: string) => noted.push(text) };
  const exitCode = await runCommandLine(['reward', 'test', ...words], { io, load: async () => command });
  return { exitCode, printed: printed.join('\n'), noted: noted.join('\n') };
}

async function parquet(name: string, rows: Record<string, unknown>[]): Promise<string> {
  const path = join(folder, name);
  async function* all() {
    yield* rows;
  }
  await writeParquet(path, all());
  return path;
}

const row = (target_response: string, ground_truth: string) => ({
  data_source: 'openai/gsm8k',
  prompt: [{ role: 'user', content: 'How many?' }],
  reward_model: { style: 'rule', ground_truth },
  target_response,
});

it('scores a dataset with the built-in scores and shows distribution and extremes', async () => {
  const data = await parquet('gsm8k.parquet', [
    row('so #### 5', '5'),
    row('so #### 6', '5'),
    row('none', '5'),
    row('#### 5', '5'),
  ]);
  const output = join(folder, 'scores.jsonl');
  const { exitCode, printed } = await verlet('--data', data, '--kwargs', '{"format_score": 0.1}', '-o', output);
  expect(exitCode).toBe(0);
  expect(printed).toContain('4 rows scored, 0 errors');
  expect(printed).toMatch(/mean 0.525, .* from 0 to 1/);
  expect(printed).toMatch(/ {2}0 █+ 1\n {2}0.1 █+ 1\n {4}1 █+ 2/);
  expect(printed).toMatch(/lowest\n {2}row 2 {2}0\n {4}response: none\n {4}truth: {4}5/);
  expect(
    readFileSync(output, 'utf8')
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line).score),
  ).toEqual([1, 0.1, 0, 1]);
});

it('scores saved rollouts with a TypeScript function, and counts its errors', async () => {
  const data = join(folder, 'rollout.jsonl');
  const rows = ['a', 'bb', 'boom'].map((output) => JSON.stringify({ input: 'q', output, gts: 'bb', step: 1 }));
  writeFileSync(data, rows.join('\n'));
  const file = join(folder, 'mine.ts');
  writeFileSync(
    file,
    `export function compute_score({ solution_str, ground_truth }: { solution_str: string; ground_truth: string }) {
      if (solution_str === 'boom') throw new Error('no score for this');
      return { score: solution_str === ground_truth ? 1 : 0, length: solution_str.length };
    }`,
  );
  const { exitCode, printed } = await verlet(file, '--data', data);
  expect(exitCode).toBe(0);
  expect(printed).toContain('3 rows scored, 1 errors');
  expect(printed).toContain('row 1  1  (length=2)');
  expect(printed).toContain('1 × no score for this (first: row 2)');
});

it('says what is wrong', async () => {
  const data = await parquet('odd.parquet', [
    { data_source: 'unknown/source', text: 'x', reward_model: { ground_truth: 'x' } },
  ]);
  const unknown = await verlet('--data', data);
  expect(unknown.exitCode).toBe(1);
  expect(unknown.noted).toContain('openai/gsm8k');
  expect((await verlet('--data', data, '--response-key', 'respons')).noted).toMatch(
    /has no column respons; it has data_source, text/,
  );
  expect((await verlet(join(folder, 'none.ts'), '--data', data)).noted).toContain('there is no file');
  expect((await verlet('--data', data, '--kwargs', '[1]')).exitCode).toBe(2);
});
