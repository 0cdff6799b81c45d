import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { liveTensors, openSafetensors } from '@verlet/torch';
import { beforeAll, describe, expect, it } from 'vitest';
import { SftDataset } from '../../src/data/index.js';
import { loadCausalLM } from '../../src/models/index.js';
import { supervisedLoss } from '../../src/workers/supervised.js';
import { loadTokenizer, makeTinyModel, temporaryFolder, verlet } from './tiny-model.js';

const root = temporaryFolder('sft');
let model: string;
const rows = Array.from({ length: 12 }, (_, k) => ({ question: `What is ${k} + 1?`, answer: `${k} + 1 = ${k + 1}` }));
const chats = rows.map(({ question, answer }) => ({
  messages: [
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: question },
    { role: 'assistant', content: answer },
    { role: 'user', content: 'Sure?' },
    { role: 'assistant', content: 'Yes.' },
  ],
}));

function jsonl(name: string, values: readonly unknown[]): string {
  const file = path.join(root, name);
  writeFileSync(file, values.map((value) => JSON.stringify(value)).join('\n'));
  return file;
}

const settings = (name: string, ...more: string[]): string[] => [
  'sft',
  `data.train_files=${path.join(root, 'rows.jsonl')}`,
  `model.partial_pretrain=${model}`,
  'data.train_batch_size=4',
  'data.micro_batch_size_per_gpu=2',
  'optim.lr=3e-3',
  'trainer.device=cpu',
  `trainer.default_local_dir=${path.join(root, name)}`,
  ...more,
];

function metricsOf(name: string): Record<string, number>[] {
  const text = readFileSync(path.join(root, name, 'metrics.jsonl'), 'utf8').trim();
  return text.split('\n').map((line) => (JSON.parse(line) as { data: Record<string, number> }).data);
}

const weights = (name: string, step: number): Buffer =>
  readFileSync(path.join(root, name, `global_step_${step}/actor/huggingface/model.safetensors`));

beforeAll(async () => {
  model = await makeTinyModel(path.join(root, 'model'));
  jsonl('rows.jsonl', rows);
  jsonl('chats.jsonl', chats);
});

describe('verlet sft', () => {
  it('learns prompts and responses, validates, and leaves a model', async () => {
    const { exitCode, printed, noted } = await verlet(
      settings(
        'plain',
        `data.val_files=${path.join(root, 'rows.jsonl')}`,
        'trainer.total_epochs=4',
        'trainer.test_freq=3',
      ),
    );
    expect(noted).toBe('');
    expect(exitCode).toBe(0);
    expect(printed).toMatch(/step 12\/12 {2}loss \d/);
    const metrics = metricsOf('plain');
    expect(metrics).toHaveLength(12);
    expect(metrics[11]!['train/loss']).toBeLessThan(metrics[0]!['train/loss']! * 0.8);
    expect(metrics[11]!['val/loss']).toBeLessThan(metrics[2]!['val/loss']!);
    const folder = path.join(root, 'plain/global_step_12/actor/huggingface');
    expect(readdirSync(folder)).toEqual(expect.arrayContaining(['config.json', 'model.safetensors', 'tokenizer.json']));
    const report = readFileSync(path.join(root, 'plain/report.md'), 'utf8');
    expect(report).toMatch(/loss[\s\S]*held-out loss[\s\S]*verlet chat .*global_step_12\/actor\/huggingface/);
    expect(printed).toContain('report.html');
  });

  it('goes on after an interruption with the same bits', async () => {
    const whole = await verlet(settings('whole', 'trainer.total_epochs=2'));
    expect(whole.exitCode).toBe(0);
    const controller = new AbortController();
    const first = verlet(settings('parts', 'trainer.total_epochs=2'), { signal: controller.signal });
    // Stopped while the first step runs: it is finished and saved.
    controller.abort();
    const stopped = await first;
    expect(stopped.exitCode).toBe(130);
    expect(stopped.noted).toContain('stopped after step 1; run the same command again to go on');
    expect(existsSync(path.join(root, 'parts/global_step_1/actor/optimizer.safetensors'))).toBe(true);
    const second = await verlet(settings('parts', 'trainer.total_epochs=2'));
    expect(second.printed).toContain('going on after step 1');
    expect(weights('parts', 6).equals(weights('whole', 6))).toBe(true);
    const losses = (name: string) => metricsOf(name).map((metrics) => metrics['train/loss']);
    expect(losses('parts')).toEqual(losses('whole'));
    const again = await verlet(settings('parts', 'trainer.total_epochs=2'));
    expect(again.noted).toContain('nothing to do: step 6 was reached before');
  });

  it('ends before a step that is not finite, and keeps its examples', async () => {
    const { exitCode, noted } = await verlet(settings('diverged', 'optim.lr=1e30', 'optim.lr_warmup_steps=0'));
    expect(exitCode).toBe(1);
    expect(noted).toMatch(/step \d: the loss is NaN.*failed_batch_step_\d.*smaller learning rate/);
    expect(noted).not.toContain('defect');
    const [folder] = readdirSync(path.join(root, 'diverged')).filter((name) => name.startsWith('failed_batch'));
    const items = JSON.parse(readFileSync(path.join(root, 'diverged', folder!, 'items.json'), 'utf8')) as unknown[];
    expect(items).toHaveLength(4);
  });

  it('frees every tensor it made', () => {
    expect(liveTensors().count).toBe(0);
  });

  it('learns conversations with an adapter, packed by tokens', async () => {
    const more = [
      'data.multiturn.enable=true',
      'model.lora_rank=4',
      'data.use_dynamic_bsz=true',
      'data.max_length=256',
      'data.max_token_len_per_gpu=256',
      'trainer.total_training_steps=4',
      'trainer.save_freq=2',
    ];
    const chat = `data.train_files=${path.join(root, 'chats.jsonl')}`;
    const { exitCode, noted } = await verlet(settings('lora', chat, ...more));
    expect([exitCode, noted]).toEqual([0, '']);
    const folder = path.join(root, 'lora/global_step_4/actor');
    expect(readdirSync(path.join(folder, 'lora_adapter')).sort()).toEqual([
      'adapter_config.json',
      'adapter_model.safetensors',
    ]);
    using reader = openSafetensors(path.join(folder, 'lora_adapter/adapter_model.safetensors'));
    expect(reader.names().length).toBe(2 * 7 * 2);
    // Resuming from the middle ends at the same adapter.
    const end = readFileSync(path.join(folder, 'lora_adapter/adapter_model.safetensors'));
    rmSync(path.join(root, 'lora/global_step_4'), { recursive: true });
    await verlet(settings('lora', chat, ...more));
    expect(readFileSync(path.join(folder, 'lora_adapter/adapter_model.safetensors')).equals(end)).toBe(true);
  });

  it('does not depend on how a batch is cut', async () => {
    const steps = 'trainer.total_training_steps=1';
    await verlet(settings('by-two', steps));
    await verlet(settings('by-four', steps, 'data.micro_batch_size_per_gpu=4'));
    await verlet(
      settings('by-tokens', steps, 'data.use_dynamic_bsz=true', 'data.max_length=64', 'data.max_token_len_per_gpu=64'),
    );
    const [first, ...others] = ['by-two', 'by-four', 'by-tokens'].map((name) => metricsOf(name)[0]!);
    for (const other of others) {
      expect(other['train/loss']).toBeCloseTo(first!['train/loss']!, 5);
      expect(other['train/grad_norm']).toBeCloseTo(first!['train/grad_norm']!, 3);
    }
  });

  it('validates in batches as in one, keeps as many checkpoints as asked, follows the schedule', async () => {
    const val = `data.val_files=${path.join(root, 'rows.jsonl')}`;
    const more = [val, 'trainer.total_training_steps=10', 'optim.lr=1e-3', 'optim.lr_scheduler=wsd'];
    const wsd = [
      'optim.lr_warmup_steps=2',
      'optim.stable_ratio=0.5',
      'trainer.save_freq=2',
      'trainer.max_ckpt_to_keep=2',
    ];
    await verlet(settings('wsd', ...more, ...wsd));
    expect(readdirSync(path.join(root, 'wsd')).filter((name) => name.startsWith('global'))).toHaveLength(2);
    const rates = metricsOf('wsd').map((metrics) => metrics['train/lr']! * 1e3);
    expect(rates.slice(0, 7)).toEqual([0, 0.5, 1, 1, 1, 1, 1].map((rate) => expect.closeTo(rate, 9)));
    expect(rates[9]).toBeLessThan(rates[7]!);
    const tuned = await loadCausalLM(path.join(root, 'wsd/global_step_10/actor/huggingface'));
    const dataset = await SftDataset.open(path.join(root, 'rows.jsonl'), await loadTokenizer(model));
    const items = await dataset.items(rows.map((_, k) => k));
    const examples = items.map(({ inputIds, lossMask }) => ({ tokenIds: inputIds, lossMask }));
    expect(metricsOf('wsd')[9]!['val/loss']).toBeCloseTo(supervisedLoss(tuned, [examples]), 5);
    tuned.dispose();
    await dataset.close();
  });

  it('learns on two ranks what it learns on one, and goes on from there on one', async () => {
    // The commands themselves: ranks are processes that load what was compiled.
    const main = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url));
    const run = (name: string, ...more: string[]) => {
      const words = settings(name, `data.val_files=${path.join(root, 'chats.jsonl')}`, ...more);
      const { status, stderr } = spawnSync(process.execPath, [main, ...words], {
        encoding: 'utf8',
        timeout: 100_000,
        env: { ...process.env, OMP_NUM_THREADS: '1' },
      });
      expect(status, stderr).toBe(0);
    };
    const chat = [
      `data.train_files=${path.join(root, 'chats.jsonl')}`,
      'data.multiturn.enable=true',
      'data.micro_batch_size_per_gpu=1',
      'optim.clip_grad=0.5',
    ];
    run(
      'two-ranks',
      ...chat,
      'trainer.total_training_steps=4',
      'optim.lr_scheduler=constant',
      'trainer.n_gpus_per_node=2',
    );
    run('two-ranks', ...chat, 'trainer.total_training_steps=6', 'optim.lr_scheduler=constant');
    run('one-rank-constant', ...chat, 'trainer.total_training_steps=6', 'optim.lr_scheduler=constant');
    const [one, two] = [metricsOf('one-rank-constant'), metricsOf('two-ranks')];
    expect(two).toHaveLength(6);
    for (const [step, metrics] of two.entries())
      for (const name of ['train/loss', 'train/grad_norm', 'train/tokens'])
        expect(metrics[name], `${name} of step ${step}`).toBeCloseTo(one[step]![name]!, 4);
    expect(two[3]!['val/loss']).toBeGreaterThan(two[5]!['val/loss']!);
    expect(two[5]!['val/loss']).toBeCloseTo(one[5]!['val/loss']!, 4);
  }, 120_000);

  it('says what is wrong before it starts', async () => {
    const wrong = async (...more: string[]) => (await verlet(settings('wrong', ...more))).noted;
    expect(await wrong('data.train_batch_size=100')).toContain(
      '12 training examples, fewer than data.train_batch_size=100',
    );
    expect(await wrong('data.prompt_key=querstion')).toMatch(
      /column "querstion": there is no such column; .* question, answer/,
    );
    expect(await wrong('data.max_length=8')).toMatch(/row 0: the example has \d+ tokens, more than data.max_length=8/);
    expect(await wrong('model.partial_pretrain=./nowhere')).toContain('there is no folder');
    expect(await wrong('trainer.n_gpus_per_node=2', 'trainer.launcher=ray')).toContain('runs on one machine');
    expect(await wrong('trainer.n_gpus_per_node=2', 'trainer.launcher=inline')).toContain('trainer.launcher=process');
    expect(await wrong('data.use_dynamic_bsz=true', 'data.max_token_len_per_gpu=9')).toContain(
      '9 tokens cannot hold one example',
    );
    expect(await wrong('optim.optimizer=SGD')).toContain('SGD is not there');
    expect(await wrong('model.lora_rank=2', 'model.target_modules=[nothing]')).toContain('no module matches');
    expect(existsSync(path.join(root, 'wrong', 'global_step_1'))).toBe(false);
  });
});
