/** What goes wrong around a run: each mishap is told in words that help, and loses nothing. */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { beforeAll, expect, it, vi } from 'vitest';
import { runCommandLine } from '../../src/cli/frame.js';
import { UserError } from '../../src/config/index.js';
import { writeParquet } from '../../src/data/index.js';
import { train } from '../../src/trainer/train.js';
import { countsDigits, type TinySetup, tinySetup } from './tiny.js';

let tiny: TinySetup;
beforeAll(async () => {
  tiny = await tinySetup();
});

const run = (...overrides: string[]) =>
  train({
    config: tiny.config('trainer.total_training_steps=1', `trainer.default_local_dir=${tiny.folder}/run`, ...overrides),
    reward: countsDigits,
  });

const rowOf = (content: string) => ({
  data_source: 'openai/gsm8k',
  prompt: [{ role: 'user', content }],
  reward_model: { style: 'rule', ground_truth: '2' },
});

it('files without rows, or with too few, are named', async () => {
  const empty = path.join(tiny.folder, 'empty.jsonl');
  writeFileSync(empty, '');
  await expect(run(`data.train_files=${empty}`)).rejects.toThrow(/data\.train_files=.*empty\.jsonl: there are no rows/);
  await expect(run(`data.val_files=${empty}`)).rejects.toThrow(/data\.val_files=.*there are no rows/);
  const few = path.join(tiny.folder, 'few.parquet');
  await writeParquet(few, [rowOf('1 + 1 = ?'), rowOf('1 + 1 = ?')]);
  const error = await run(`data.train_files=${few}`).catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(UserError);
  expect((error as Error).message).toMatch(/2 items, fewer than one batch of 8; lower data\.train_batch_size/);
});

it('prompts that are too long are named, or left out and counted', async () => {
  const file = path.join(tiny.folder, 'long.parquet');
  const rows = Array.from({ length: 16 }, (_, k) => rowOf(k === 5 ? '1 + '.repeat(40) : '1 + 1 = ?'));
  await writeParquet(file, rows);
  const words = [`data.train_files=${file}`, 'data.shuffle=false'];
  await expect(run(...words)).rejects.toThrow(/row 5, column "prompt": the prompt has \d+ tokens, more than/);
  const warned = vi.spyOn(console, 'warn').mockImplementation(() => {});
  try {
    expect((await run(...words, 'data.filter_overlong_prompts=true')).globalStep).toBe(1);
    expect(warned.mock.calls.flat().join()).toMatch(/data\.train_files: 1 of 16 rows left out/);
  } finally {
    warned.mockRestore();
  }
});

it('a run folder that cannot be one is named', async () => {
  const file = path.join(tiny.folder, 'a-file');
  writeFileSync(file, '');
  await expect(run(`trainer.default_local_dir=${file}`)).rejects.toThrow(
    /trainer\.default_local_dir=.*a-file cannot be written to: EEXIST/,
  );
});

it('the command says which rank was killed and where it goes on', async () => {
  const reward = path.join(tiny.folder, 'digits.mjs');
  writeFileSync(reward, `export const compute_score = ${countsDigits.toString()};\n`);
  const folder = path.join(tiny.folder, 'killed');
  const latest = path.join(folder, 'latest_checkpointed_iteration.txt');
  const words = tiny.words(
    'trainer.total_training_steps=2000',
    'trainer.save_freq=2',
    'trainer.n_gpus_per_node=2',
    'trainer.device=cpu',
    `custom_reward_function.path=${reward}`,
    `trainer.default_local_dir=${folder}`,
  );
  const timer = setInterval(() => {
    if (!existsSync(latest)) return;
    clearInterval(timer);
    const children = execFileSync('pgrep', ['-P', String(process.pid), '-f', 'rank-entry'], { encoding: 'utf8' });
    process.kill(Number(children.trim().split('\n').at(-1)), 'SIGKILL');
  }, 20);
  const noted: string[] = [];
  const io = { print: () => {}, note: (line: string) => void noted.push(line) };
  const exitCode = await runCommandLine(['train', ...words], { io: io as never });
  clearInterval(timer);
  const said = noted.join('\n');
  expect(exitCode).toBe(1);
  expect(said).toMatch(/rank \d of 2 died in \w+: its process \d+ was ended by SIGKILL/);
  expect(said).toContain(`goes on after step ${readFileSync(latest, 'utf8').trim()}`);
  expect(said).not.toContain('defect');
});

it('a step that finds nothing to learn from says so, ends when asked to, and is done anew', async () => {
  const folder = path.join(tiny.folder, 'fruitless');
  const weights = (name: string): Buffer =>
    readFileSync(path.join(tiny.folder, name, 'global_step_3/actor/huggingface/model.safetensors'));
  const words = (name: string) => [
    'algorithm.filter_groups.enable=true',
    'trainer.total_training_steps=3',
    'trainer.save_freq=3',
    `trainer.default_local_dir=${path.join(tiny.folder, name)}`,
  ];
  await train({ config: tiny.config(...words('fruitful')), reward: countsDigits });
  const stop = new AbortController();
  let isFruitless = false;
  const said: string[] = [];
  const warned = vi.spyOn(console, 'warn').mockImplementation((text: string) => {
    said.push(text);
    if (/after 16 batches/.test(text)) stop.abort();
  });
  const tracker = {
    name: 'step',
    log(_: unknown, step: number) {
      isFruitless = step === 2;
    },
  };
  const first = await train({
    config: tiny.config(...words('fruitless')),
    reward: (input) => (isFruitless ? 1 : countsDigits(input)),
    signal: stop.signal,
    trackers: [tracker],
  });
  warned.mockRestore();
  expect(first).toMatchObject({ globalStep: 2, interrupted: true });
  expect(said.join()).toMatch(/step 3: after 8 batches only 0 of 8 prompts have answers that differ/);
  expect(existsSync(path.join(folder, 'global_step_2/trainer_state.json'))).toBe(true);
  const again = await train({ config: tiny.config(...words('fruitless')), reward: countsDigits });
  expect(again.globalStep).toBe(3);
  // The rows of the abandoned step came again.
  expect(weights('fruitless').equals(weights('fruitful'))).toBe(true);
});
