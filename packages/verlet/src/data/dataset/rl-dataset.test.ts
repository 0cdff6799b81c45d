import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Tokenizer, trainBpe } from '../../models/tokenizer/index.js';
import { progressBar } from '../progress.js';
import { type Row, writeParquet } from '../table/index.js';
import { openDatasets, openLoader, openSampler, RlDataset, truncateIds } from './index.js';

const folder = mkdtempSync(join(tmpdir(), 'verlet-dataset-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
let tokenizer: Tokenizer;
beforeAll(async () => {
  tokenizer = await trainBpe(['What is the answer to this?'], { vocabSize: 280, folder: join(folder, 'tokenizer') });
});

let serial = 0;
async function file(rows: Row[]): Promise<string> {
  const path = join(folder, `d${serial++}.parquet`);
  await writeParquet(path, rows, { mixed: 'json' });
  return path;
}
const row = (content: string, index = 0): Row => ({
  data_source: 'openai/gsm8k',
  prompt: [{ role: 'user', content }],
  ability: 'math',
  reward_model: { style: 'rule', ground_truth: '4' },
  extra_info: { index, split: 'train' },
});

describe('RlDataset', () => {
  it('makes items that carry the whole row', async () => {
    const path = await file([
      {
        ...row('What is 2+2?'),
        agent_name: 'tool_agent',
        target_response: 'four',
        tools_kwargs: { calculator: { create_kwargs: { ground_truth: '4' } }, other: null },
      },
      { ...row('Hi'), extra_info: { index: 1, interaction_kwargs: { name: 'gsm8k' } } },
    ]);
    const dataset = await RlDataset.open(path, tokenizer, { returnFullPrompt: true });
    const [first, second] = await dataset.items([0, 1]);
    expect(tokenizer.decode(first?.promptIds as Int32Array)).toBe(
      '<|im_start|>user\nWhat is 2+2?<|im_end|>\n<|im_start|>assistant\n',
    );
    expect(first).toMatchObject({
      index: 0,
      rawPrompt: [{ role: 'user', content: 'What is 2+2?' }],
      data_source: 'openai/gsm8k',
      reward_model: { style: 'rule', ground_truth: '4' },
      agent_name: 'tool_agent',
      target_response: 'four',
      tools_kwargs: { calculator: { create_kwargs: { ground_truth: '4' } } },
      interaction_kwargs: {},
      full_prompts: '<|im_start|>user\nWhat is 2+2?<|im_end|>\n<|im_start|>assistant\n',
    });
    expect(first).not.toHaveProperty('prompt');
    expect(first?.tools_kwargs).not.toHaveProperty('other');
    expect(second?.interaction_kwargs).toEqual({ name: 'gsm8k' });
    expect(second).not.toHaveProperty('agent_name');
  });

  it('filters long prompts and says how many', async () => {
    const path = await file([row('a'), row('word '.repeat(400)), row('b'), row('word '.repeat(400))]);
    const seen: number[] = [];
    const dataset = await RlDataset.open(path, tokenizer, {
      maxPromptLength: 40,
      filterOverlongPrompts: true,
      onProgress: (done) => seen.push(done),
    });
    expect(dataset.report).toEqual({ total: 4, notSampled: 0, overlong: 2, kept: 2 });
    expect((await dataset.items([0, 1])).map((item) => item.rawPrompt[0]?.content)).toEqual(['a', 'b']);
    expect(seen).toEqual([4]);
    await expect(RlDataset.open(path, tokenizer, { maxPromptLength: 1, filterOverlongPrompts: true })).rejects.toThrow(
      'all 4 prompts are longer',
    );
  });

  it('cuts or refuses a prompt that is too long', async () => {
    const path = await file([row('0123456789'.repeat(10))]);
    const open = (truncation: 'error' | 'left' | 'right' | 'middle') =>
      RlDataset.open(path, tokenizer, { maxPromptLength: 21, truncation }).then((dataset) => dataset.item(0));
    await expect(open('error')).rejects.toThrow(/row 0, column "prompt": the prompt has \d+ tokens, more than .*=21/);
    expect(tokenizer.decode((await open('left')).promptIds)).toMatch(/789<\|im_end\|>\n<\|im_start\|>assistant\n$/);
    expect(tokenizer.decode((await open('right')).promptIds)).toMatch(/^<\|im_start\|>user\n0123/);
    expect((await open('middle')).promptIds.length).toBe(21);
    const ids = Int32Array.from({ length: 10 }, (_, i) => i);
    expect([...truncateIds(ids, 5, 'middle')]).toEqual([0, 1, 7, 8, 9]);
    expect([...truncateIds(ids, 5, 'left')]).toEqual([5, 6, 7, 8, 9]);
    expect([...truncateIds(ids, 5, 'right')]).toEqual([0, 1, 2, 3, 4]);
  });

  it('puts a format prompt around a plain question', async () => {
    const path = await file([{ problem: ' 1+1? ', answer: '2', hint: 'small' }]);
    const dataset = await RlDataset.open(path, tokenizer, {
      promptKey: 'problem',
      answerKey: 'answer',
      formatPrompt: '{{ content | trim }} ({{ hint }}) Think first.',
    });
    const item = await dataset.item(0);
    expect(item.rawPrompt).toEqual([{ role: 'user', content: '1+1? (small) Think first.' }]);
    expect(item.reward_model).toEqual({ style: 'rule', ground_truth: '2' });
    expect(item.data_source).toBe('unknown');
  });

  it('shows the tools that a row selects', async () => {
    const tool = (name: string) => ({ type: 'function' as const, function: { name } });
    const path = await file([
      { ...row('a'), extra_info: { tool_selection: ['b'] } },
      { ...row('a'), extra_info: { tool_selection: ['z'] } },
    ]);
    const dataset = await RlDataset.open(path, tokenizer, { tools: [tool('a'), tool('b')], returnFullPrompt: true });
    const { full_prompts: text } = await dataset.item(0);
    expect(text).toContain('{"name": "b"}');
    expect(text).not.toContain('{"name": "a"}');
    await expect(dataset.item(1)).rejects.toThrow('tool_selection names tools that do not exist: z');
  });

  it('takes some of the rows', async () => {
    const path = await file(Array.from({ length: 50 }, (_, i) => row(`q${i}`, i)));
    const first = await RlDataset.open(path, tokenizer, { maxSamples: 3 });
    expect((await first.items([0, 1, 2])).map((item) => item.extra_info.index)).toEqual([0, 1, 2]);
    const chosen = await RlDataset.open(path, tokenizer, { maxSamples: 10, shuffle: true, seed: 4 });
    const again = await RlDataset.open(path, tokenizer, { maxSamples: 10, shuffle: true, seed: 4 });
    const numbers = async (dataset: RlDataset) =>
      (await dataset.items(Array.from({ length: 10 }, (_, i) => i))).map((item) => item.extra_info.index);
    expect(await numbers(chosen)).toEqual(await numbers(again));
    expect(new Set(await numbers(chosen)).size).toBe(10);
    expect(chosen.report.notSampled).toBe(40);
  });

  it.each([
    ['an empty conversation', { prompt: [] }, 'column "prompt": the conversation is empty'],
    ['a blank question', { prompt: ' ' }, 'column "prompt": the prompt is empty'],
    ['a number', { prompt: 3 }, 'is to hold a list of {role, content} or a text, got a number 3'],
    ['a message without role', { prompt: [{ content: 'x' }] }, 'column "prompt[0]": a message needs a role'],
    ['a message without content', { prompt: [{ role: 'user' }] }, 'the message has no content'],
    [
      'an image part',
      { prompt: [{ role: 'user', content: [{ type: 'image', image: 'x' }] }] },
      'a part of type "image"',
    ],
    ['images', { prompt: 'x', images: ['a.png'] }, 'column "images": holds media'],
  ])('refuses %s and says where', async (_name, bad, message) => {
    const path = join(folder, `bad${serial++}.jsonl`);
    writeFileSync(path, [{ prompt: 'fine' }, bad].map((value) => JSON.stringify(value)).join('\n'));
    const dataset = await RlDataset.open(path, tokenizer);
    expect((await dataset.item(0)).index).toBe(0);
    const failure = await dataset.item(1).catch((error: Error) => error.message);
    expect(failure).toContain(`${path}, row 1, `);
    expect(failure).toContain(message);
  });

  it('names a missing column when opening', async () => {
    const path = await file([{ question: 'x' }]);
    await expect(RlDataset.open(path, tokenizer)).rejects.toThrow(
      `${path}, column "prompt": there is no such column; the file has question`,
    );
  });
});

describe('the data group of a configuration', () => {
  it('opens loaders as verl does', async () => {
    const train = [await file(Array.from({ length: 9 }, (_, i) => row(`a${i}`, i))), await file([row('b', 100)])];
    const config = { train_files: train, val_files: train[0], train_batch_size: 4, max_prompt_length: 64, seed: 2 };
    const datasets = await openDatasets(config, 'train', { tokenizer });
    const loader = openLoader(datasets, config, 'train');
    expect([datasets.length, loader.batchesPerEpoch]).toEqual([1, 2]);
    const validation = openLoader(await openDatasets(config, 'val', { tokenizer }), config, 'val');
    expect((await validation.next()).map((item) => item.extra_info.index)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8]);
    const mixed = { ...config, train_weights: [1, 1] };
    const mixedLoader = openLoader(await openDatasets(mixed, 'train', { tokenizer }), mixed, 'train');
    const drawn = [...(await mixedLoader.next()), ...(await mixedLoader.next())].map((item) => item.index);
    expect(drawn.filter((index) => index === 9).length).toBeGreaterThan(1);
  });

  it("takes a dataset class and a sampler of one's own", async () => {
    const module = join(folder, 'own.mjs');
    writeFileSync(
      module,
      `export class Own {
  static async open(files, tokenizer, options) { return new Own([files].flat().length + options.maxPromptLength); }
  constructor(length) { this.length = length; }
  async items(indices) { return Array.from(indices, (index) => ({ index })); }
  async close() {}
}
export class Backwards {
  constructor({ length }) { this.epochLength = length; this.at = length; }
  startEpoch() { this.at = this.epochLength; }
  next() { return --this.at; }
  state() { return this.at; }
  restore(at) { this.at = at; }
}`,
    );
    const config = {
      train_files: ['a', 'b'],
      train_batch_size: 2,
      max_prompt_length: 3,
      custom_cls: { path: module, name: 'Own' },
      sampler: { class_path: module, class_name: 'Backwards' },
    };
    const datasets = await openDatasets(config, 'train', { tokenizer });
    const loader = openLoader(datasets, config, 'train', await openSampler(datasets, config));
    expect((await loader.next()).map((item) => item.index)).toEqual([4, 3]);
    await expect(
      openDatasets({ ...config, custom_cls: { path: module, name: 'Other' } }, 'train', { tokenizer }),
    ).rejects.toThrow('data.custom_cls: ');
  });
});

describe('progressBar', () => {
  it('is a few lines in a log and nothing for short work', () => {
    const lines: string[] = [];
    const output = { write: (text: string) => lines.push(text) };
    progressBar('short', output)(256, 256);
    expect(lines).toEqual([]);
    const bar = progressBar('long', output);
    for (let done = 0; done <= 1000; done++) bar(done, 1000);
    expect(lines.length).toBe(11);
    expect(lines.at(-1)).toBe('long: 1000/1000\n');
  });
});
