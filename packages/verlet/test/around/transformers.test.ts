/** What is trained and exported here is what transformers computes and loads. */
import { readdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { AdamW } from '@verlet/torch';
import { beforeAll, describe, expect, it } from 'vitest';
import { SftDataset } from '../../src/data/index.js';
import { loadCausalLM, loadRewardModel } from '../../src/models/index.js';
import { supervisedLoss, supervisedStep } from '../../src/workers/supervised.js';
import { fixtureFolder, packedLogits } from '../models/fixture.js';
import { askPython, whyNoPython } from './python.js';
import { loadTokenizer, makeTinyModel, temporaryFolder, verlet } from './tiny-model.js';

const root = temporaryFolder('transformers');
const at = (name: string): string => path.join(root, name);
const prompt = [3, 17, 5, 29, 11];
const batch = [
  { tokenIds: [3, 17, 5, 29, 11, 8, 2], lossMask: [0, 0, 0, 1, 1, 1, 1] },
  { tokenIds: [7, 1, 22, 9, 30, 4, 12, 19, 6, 2], lossMask: [0, 0, 1, 1, 0, 0, 0, 1, 1, 1] },
  { tokenIds: [5, 6, 7], lossMask: [0, 1, 1] },
];

async function ownLoss(folder: string, examples: typeof batch) {
  const model = await loadCausalLM(folder);
  const optimizer = new AdamW(model.namedParameters(), { lr: 0 });
  const before = supervisedLoss(model, [examples]);
  const { loss, gradNorm } = supervisedStep(model, optimizer, [examples.slice(0, 1), examples.slice(1)], {
    gradClip: 1e9,
  });
  optimizer.dispose();
  model.dispose();
  expect(before).toBeCloseTo(loss, 5);
  return { loss, gradNorm };
}

async function ownLogits(folder: string): Promise<number[]> {
  const model = await loadCausalLM(folder);
  const logits = packedLogits(model, [prompt]);
  const last = Array.from(logits.toFloat32Array()).slice(-logits.size(1));
  logits.dispose();
  model.dispose();
  return last;
}

// Computed by transformers 5.22 with peers.py on the model folders in test/models/fixtures.
it.each([
  ['qwen2', 4.570163249969482, 3.76303768157959],
  ['llama3', 4.327503681182861, 3.7548346519470215],
])('the loss of a batch is that of transformers: %s', async (name, loss, gradNorm) => {
  const own = await ownLoss(fixtureFolder(name), batch);
  expect(Math.abs(own.loss - loss)).toBeLessThan(1e-4);
  expect(Math.abs(own.gradNorm - gradNorm)).toBeLessThan(1e-3);
});

interface Loaded {
  dtype: string;
  missing: string[];
  unexpected: string[];
  values: number[] | number[][];
  chat: string;
}

const reason = whyNoPython('torch', 'transformers');
if (reason) console.warn(`not compared with transformers: ${reason}`);

describe.skipIf(reason !== null)(`beside transformers${reason ? ` (skipped: ${reason})` : ''}`, () => {
  let model: string;
  let chat: typeof batch;
  let answers: [{ loss: number; gradNorm: number }, Loaded, Loaded, Loaded];

  beforeAll(async () => {
    model = await makeTinyModel(at('model'));
    const rows = [1, 2, 3, 4].map((k) => ({
      messages: [
        { role: 'user', content: `What is ${k} + 1?` },
        { role: 'assistant', content: `It is ${k + 1}.` },
        { role: 'user', content: 'Sure?' },
        { role: 'assistant', content: 'Yes.' },
      ],
    }));
    writeFileSync(at('chat.jsonl'), rows.map((row) => JSON.stringify(row)).join('\n'));
    const pairs = rows.map((_, k) => JSON.stringify({ prompt: `${k}?`, chosen: 'Yes.', rejected: 'No.' }));
    writeFileSync(at('pairs.jsonl'), pairs.join('\n'));
    const dataset = await SftDataset.open(at('chat.jsonl'), await loadTokenizer(model), { multiturn: {} });
    chat = (await dataset.items([0, 1, 2, 3])).map(({ inputIds, lossMask }) => ({
      tokenIds: Array.from(inputIds),
      lossMask: Array.from(lossMask),
    }));
    await dataset.close();
    const train = (objective: string, file: string, folder: string, ...more: string[]) =>
      verlet([
        'sft',
        '--objective',
        objective,
        `data.train_files=${at(file)}`,
        `model.partial_pretrain=${model}`,
        'data.train_batch_size=4',
        'optim.lr=1e-2',
        'trainer.total_training_steps=3',
        'trainer.device=cpu',
        `trainer.default_local_dir=${at(folder)}`,
        ...more,
      ]);
    expect((await train('sft', 'chat.jsonl', 'lora', 'data.multiturn.enable=true', 'model.lora_rank=4')).noted).toBe(
      '',
    );
    expect((await train('reward_model', 'pairs.jsonl', 'reward')).noted).toBe('');
    const adapter = at('lora/global_step_3/actor/lora_adapter');
    expect((await verlet(['export', adapter, at('merged'), '--max-shard-size', '20KB'])).noted).toBe('');
    expect((await verlet(['export', at('lora'), at('cast'), '--dtype', 'bfloat16'])).noted).toBe('');
    answers = askPython('peers.py', [
      { kind: 'loss', folder: model, examples: chat },
      { kind: 'causal', folder: at('merged'), input_ids: prompt },
      { kind: 'causal', folder: at('cast'), input_ids: prompt },
      { kind: 'reward', folder: at('reward/global_step_3/actor/huggingface'), input_ids: prompt },
    ]);
  });

  it('the loss of conversations agrees within 1e-4', async () => {
    const own = await ownLoss(model, chat);
    expect(Math.abs(own.loss - answers[0].loss)).toBeLessThan(1e-4);
    expect(Math.abs(own.gradNorm - answers[0].gradNorm)).toBeLessThan(1e-3);
  });

  it('a merged adapter loads, in shards, and computes the same', async () => {
    const { missing, unexpected, values, chat: rendered, dtype } = answers[1];
    expect([missing, unexpected, dtype]).toEqual([[], [], 'torch.float32']);
    expect(rendered).toContain('<|im_start|>user\nHi<|im_end|>');
    expect(readdirSync(at('merged')).filter((name) => name.endsWith('.safetensors')).length).toBeGreaterThan(1);
    const own = await ownLogits(at('lora/global_step_3/actor/huggingface'));
    const other = await ownLogits(model);
    const distance = (a: readonly number[]): number =>
      Math.max(...a.map((x, k) => Math.abs(x - (values as number[])[k]!)));
    expect(distance(own)).toBeLessThan(1e-4);
    expect(distance(other)).toBeGreaterThan(1e-2);
  });

  it('a cast export loads in its precision', async () => {
    const { missing, unexpected, dtype, values } = answers[2];
    expect([missing, unexpected, dtype]).toEqual([[], [], 'torch.bfloat16']);
    const own = await ownLogits(at('lora/global_step_3/actor/huggingface'));
    expect(Math.max(...own.map((x, k) => Math.abs(x - (values as number[])[k]!)))).toBeLessThan(0.1);
  });

  it('a trained reward model loads as a classifier and gives the same score', async () => {
    const { missing, unexpected, values } = answers[3];
    expect([missing, unexpected]).toEqual([[], []]);
    const own = await loadRewardModel(at('reward/global_step_3/actor/huggingface'));
    const [score] = own.scoreTokens([prompt]);
    own.dispose();
    expect(values).toHaveLength(1);
    expect(Math.abs(score! - (values as number[])[0]!)).toBeLessThan(1e-4);
  });
});
