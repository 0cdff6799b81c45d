import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { composeConfig } from '../../src/config/index.js';
import { loadRewardModel } from '../../src/models/index.js';
import { PairDataset, preferenceLoss, preferenceSettings, rankingLoss } from '../../src/trainer/preference/index.js';
import { loadTokenizer, makeTinyModel, temporaryFolder, verlet } from './tiny-model.js';

const root = temporaryFolder('preference');
let model: string;
const pairs = Array.from({ length: 8 }, (_, k) => ({
  prompt: `Is ${k} even?`,
  chosen: 'Yes.',
  rejected: 'No, not at all.',
}));
const file = (name: string): string => path.join(root, name);
const jsonl = (name: string, rows: readonly unknown[]): void =>
  writeFileSync(file(name), rows.map((row) => JSON.stringify(row)).join('\n'));

beforeAll(async () => {
  model = await makeTinyModel(file('model'));
  jsonl('pairs.jsonl', pairs);
});

const run = (objective: string, name: string, ...more: string[]) =>
  verlet([
    'sft',
    `objective.name=${objective}`,
    `data.train_files=${file('pairs.jsonl')}`,
    `data.val_files=${file('pairs.jsonl')}`,
    `model.partial_pretrain=${model}`,
    'data.train_batch_size=4',
    'data.micro_batch_size_per_gpu=2',
    'optim.lr=3e-3',
    'optim.lr_warmup_steps=0',
    'trainer.total_epochs=5',
    'trainer.device=cpu',
    `trainer.default_local_dir=${file(name)}`,
    ...more,
  ]);

function metricsOf(name: string): Record<string, number>[] {
  const lines = readFileSync(path.join(root, name, 'metrics.jsonl'), 'utf8')
    .trim()
    .split('\n');
  return lines.map((line) => (JSON.parse(line) as { data: Record<string, number> }).data);
}

describe('losses', () => {
  const around = fc.double({ min: -20, max: 20, noNaN: true });
  const settings = fc.record({
    lossType: fc.constantFrom('sigmoid' as const, 'hinge' as const, 'ipo' as const),
    beta: fc.double({ min: 0.05, max: 1, noNaN: true }),
    labelSmoothing: fc.double({ min: 0, max: 0.4, noNaN: true }),
  });
  const h = 1e-4;

  it('slopes are those of the loss', () => {
    fc.assert(
      fc.property(around, settings, (margin, given) => {
        // The hinge has a corner, where there is no slope to compare with.
        fc.pre(given.lossType !== 'hinge' || Math.abs(given.beta * margin - 1) > 2 * h);
        const at = (x: number): number => preferenceLoss(x, given).loss;
        const slope = (at(margin + h) - at(margin - h)) / (2 * h);
        expect(preferenceLoss(margin, given).slope).toBeCloseTo(slope, 4);
      }),
    );
    fc.assert(
      fc.property(around, around, fc.double({ min: 0, max: 0.1, noNaN: true }), (chosen, rejected, centering) => {
        const at = (a: number, b: number): number => rankingLoss(a, b, centering).loss;
        const loss = rankingLoss(chosen, rejected, centering);
        expect(loss.chosen).toBeCloseTo((at(chosen + h, rejected) - at(chosen - h, rejected)) / (2 * h), 4);
        expect(loss.rejected).toBeCloseTo((at(chosen, rejected + h) - at(chosen, rejected - h)) / (2 * h), 4);
      }),
    );
  });

  it('known values', () => {
    const plain = { lossType: 'sigmoid', beta: 0.1, labelSmoothing: 0 } as const;
    expect(preferenceLoss(0, plain).loss).toBeCloseTo(Math.LN2, 12);
    expect(preferenceLoss(1e5, plain).loss).toBeCloseTo(0, 12);
    expect(preferenceLoss(-1e5, plain).loss).toBeCloseTo(1e4, 6);
    expect(preferenceLoss(5, { ...plain, lossType: 'ipo' }).loss).toBeCloseTo(0, 12);
    expect(rankingLoss(2, 1, 0).loss).toBeCloseTo(0.31326168751822286, 12);
  });
});

describe('pairs', () => {
  const options = {
    settings: preferenceSettings(
      composeConfig({
        kind: 'sft',
        overrides: ['objective.name=dpo', 'data.train_files=x', 'model.partial_pretrain=x'],
      }).config,
    ),
    maxLength: 256,
    maxSamples: -1,
  };

  it('three forms of a row are one example', async () => {
    const user = { role: 'user', content: 'Is it?' };
    const answer = (content: string) => ({ role: 'assistant', content });
    jsonl('text.jsonl', [{ prompt: 'Is it?', chosen: 'Yes.', rejected: 'No.' }]);
    jsonl('messages.jsonl', [{ prompt: [user], chosen: [answer('Yes.')], rejected: [answer('No.')] }]);
    jsonl('whole.jsonl', [{ chosen: [user, answer('Yes.')], rejected: [user, answer('No.')] }]);
    const tokenizer = await loadTokenizer(model);
    const items = [];
    for (const name of ['text.jsonl', 'messages.jsonl', 'whole.jsonl']) {
      const dataset = await PairDataset.open(file(name), tokenizer, options);
      items.push(await dataset.item(0));
      await dataset.close();
    }
    expect(items[1]).toEqual(items[0]);
    expect(items[2]).toEqual(items[0]);
    const { tokenIds, lossMask } = items[0]!.chosen;
    const learned = tokenIds.filter((_, k) => lossMask[k] === 1);
    expect(tokenizer.decode(learned)).toBe('Yes.<|im_end|>');
  });

  it('says which row is wrong', async () => {
    const tokenizer = await loadTokenizer(model);
    const failing = async (row: unknown): Promise<string> => {
      jsonl('odd.jsonl', [row]);
      const dataset = await PairDataset.open(file('odd.jsonl'), tokenizer, options);
      try {
        await dataset.item(0);
        return '';
      } catch (error) {
        return (error as Error).message;
      } finally {
        await dataset.close();
      }
    };
    expect(await failing({ chosen: 'a', rejected: 'b' })).toMatch(/row 0, column "prompt": is missing/);
    expect(await failing({ prompt: 'p', chosen: '', rejected: 'b' })).toMatch(
      /column "chosen": the prompt is empty|empty/,
    );
    expect(await failing({ prompt: 'p', chosen: [{ role: 'user', content: 'x' }], rejected: 'b' })).toContain(
      'not of user',
    );
    jsonl('odd.jsonl', [{ prompt: 'p', better: 'x', rejected: 'b' }]);
    await expect(PairDataset.open(file('odd.jsonl'), tokenizer, options)).rejects.toThrow(
      /column "chosen": there is no such/,
    );
  });
});

describe('verlet sft objective.name', () => {
  it.each([
    ['full', []],
    ['lora', ['model.lora_rank=4']],
  ])('dpo prefers the chosen answers (%s)', async (name, more) => {
    const { exitCode, noted } = await run('dpo', name, ...more);
    expect([exitCode, noted]).toEqual([0, '']);
    const metrics = metricsOf(name);
    // Before the first update the policy is the reference.
    expect(metrics[0]!['train/loss']).toBeCloseTo(Math.LN2, 5);
    expect(metrics.at(-1)!['train/loss']).toBeLessThan(0.6);
    expect(metrics.at(-1)!['val/accuracy']).toBe(1);
    expect(metrics.at(-1)!['val/rewards/margin']).toBeGreaterThan(0);
  });

  it('reward_model scores the chosen answers higher, also once it is loaded again', async () => {
    const { exitCode, noted } = await run('reward_model', 'reward', 'objective.center_rewards_coef=0.01');
    expect([exitCode, noted]).toEqual([0, '']);
    const metrics = metricsOf('reward');
    expect(metrics.at(-1)!['train/loss']).toBeLessThan(metrics[0]!['train/loss']!);
    expect(metrics.at(-1)!['val/accuracy']).toBe(1);
    const loaded = await loadRewardModel(file('reward/global_step_10/actor/huggingface'));
    const ask = (content: string) => [
      { role: 'user', content: pairs[0]!.prompt },
      { role: 'assistant', content },
    ];
    const [better, worse] = await loaded.scoreConversations([ask('Yes.'), ask('No, not at all.')]);
    loaded.dispose();
    expect(better).toBeGreaterThan(worse!);
    expect((await verlet(['chat', file('reward')])).noted).toContain('it scores answers and cannot give any');
    expect(readFileSync(file('reward/report.md'), 'utf8')).toContain('reward_model.enable=true');
  });

  it('goes on after an interruption with the same bits', async () => {
    const weights = (name: string) => readFileSync(file(`${name}/global_step_10/actor/huggingface/model.safetensors`));
    const controller = new AbortController();
    controller.abort();
    for (const objective of ['dpo', 'reward_model']) {
      const whole = objective === 'dpo' ? 'full' : 'reward';
      const more = objective === 'dpo' ? [] : ['objective.center_rewards_coef=0.01'];
      const words = [
        'sft',
        '--objective',
        objective,
        ...more,
        `data.train_files=${file('pairs.jsonl')}`,
        `data.val_files=${file('pairs.jsonl')}`,
        `model.partial_pretrain=${model}`,
        'data.train_batch_size=4',
        'data.micro_batch_size_per_gpu=2',
        'optim.lr=3e-3',
        'optim.lr_warmup_steps=0',
        'trainer.total_epochs=5',
        'trainer.device=cpu',
        `trainer.default_local_dir=${file(`${objective}-parts`)}`,
      ];
      expect((await verlet(words, { signal: controller.signal })).exitCode).toBe(130);
      expect((await verlet(words)).exitCode).toBe(0);
      expect(weights(`${objective}-parts`).equals(weights(whole))).toBe(true);
    }
  });

  it('refuses settings that make no sense', async () => {
    const noted = async (...words: string[]) => (await run('dpo', 'wrong', ...words)).noted;
    expect(await noted('objective.beta=0')).toContain('objective.beta');
    expect(await noted('objective.loss_type=ipo', 'objective.label_smoothing=0.1')).toContain('goes with');
    expect(await noted('objective.rejected_key=chosen')).toContain('the same column "chosen"');
    expect((await run('nothing', 'wrong')).exitCode).toBe(2);
  });
});
