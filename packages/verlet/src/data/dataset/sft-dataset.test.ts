import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type Tokenizer, trainBpe } from '../../models/tokenizer/index.js';
import { SftDataset, type SftItem } from './sft-dataset.js';

const folder = mkdtempSync(join(tmpdir(), 'verlet-sft-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
let tokenizer: Tokenizer;
beforeAll(async () => {
  tokenizer = await trainBpe(['Some words'], { vocabSize: 270, folder: join(folder, 'tokenizer') });
});
let serial = 0;
function file(...rows: unknown[]): string {
  const path = join(folder, `${serial++}.jsonl`);
  writeFileSync(path, rows.map((row) => JSON.stringify(row)).join('\n'));
  return path;
}
const learned = ({ inputIds, lossMask }: SftItem) => tokenizer.decode(inputIds.filter((_, i) => lossMask[i] === 1));
const message = (role: string, content: string) => ({ role, content });

it('learns the response and its end token of a single turn', async () => {
  const dataset = await SftDataset.open(
    file({ question: 'Q', answer: 'A!' }, { question: 'Q', answer: '' }),
    tokenizer,
  );
  const item = await dataset.item(0);
  expect(tokenizer.decode(item.inputIds)).toBe('<|im_start|>user\nQ<|im_end|>\n<|im_start|>assistant\nA!<|im_end|>');
  expect(learned(item)).toBe('A!<|im_end|>');
  await expect(dataset.item(1)).rejects.toThrow('row 1, column "answer": is to be text');
  const nested = await SftDataset.open(file({ x: { q: 'Q' }, y: { a: 'A' } }), tokenizer, {
    promptKey: 'x',
    promptDictKeys: ['q'],
    responseKey: 'y',
    responseDictKeys: ['a'],
  });
  expect(learned(await nested.item(0))).toBe('A<|im_end|>');
});

it('learns every assistant turn of a conversation, and nothing the template wrote', async () => {
  const messages = [
    message('system', 'S'),
    message('user', 'U'),
    message('assistant', 'A'),
    message('user', 'V'),
    message('assistant', 'B'),
  ];
  const dataset = await SftDataset.open(file({ messages }), tokenizer, { multiturn: {} });
  const item = await dataset.item(0);
  expect(tokenizer.decode(item.inputIds)).toBe(tokenizer.applyChatTemplate(messages));
  expect(learned(item)).toBe('A<|im_end|>B<|im_end|>');
});

it('refuses a template that changes earlier turns, unless told to go on', async () => {
  const chatTemplate = readFileSync(
    new URL('../../models/tokenizer/fixtures/qwen3-style.jinja', import.meta.url),
    'utf8',
  );
  const thought = (text: string) => message('assistant', `<think>\nhm\n</think>\n\n${text}`);
  const path = file({ messages: [message('user', 'U'), thought('A'), message('user', 'V'), thought('B')] });
  const strict = await SftDataset.open(path, tokenizer, { multiturn: {}, chatTemplate });
  await expect(strict.item(0)).rejects.toThrow(
    'column "messages": the template renders the turns before message 3 differently',
  );
  const lenient = await SftDataset.open(path, tokenizer, { multiturn: {}, chatTemplate, ignoreInputIdsMismatch: true });
  expect(learned(await lenient.item(0))).toBe('<think>\nhm\n</think>\n\nB<|im_end|>');
});

it('cuts both ids and mask, or says how long the example is', async () => {
  const path = file({ question: 'Q', answer: 'x'.repeat(100) });
  const left = await SftDataset.open(path, tokenizer, { maxLength: 8, truncation: 'left' });
  const item = await left.item(0);
  expect([item.inputIds.length, [...item.lossMask]]).toEqual([8, [1, 1, 1, 1, 1, 1, 1, 1]]);
  const strict = await SftDataset.open(path, tokenizer, { maxLength: 8 });
  await expect(strict.item(0)).rejects.toThrow(/row 0: the example has \d+ tokens, more than data.max_length=8/);
  await expect(SftDataset.open(path, tokenizer, { multiturn: {} })).rejects.toThrow(
    'column "messages": there is no such column',
  );
});
