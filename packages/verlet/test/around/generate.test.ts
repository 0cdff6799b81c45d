import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import fc from 'fast-check';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { runCommandLine } from '../../src/cli/frame.js';
import { openTable, type Row, writeParquet } from '../../src/data/index.js';
import { estimate, finalAnswer, interval, majorityAtK, passAtK } from '../../src/trainer/evaluate/index.js';
import { makeTinyModel, temporaryFolder, verlet } from './tiny-model.js';

const root = temporaryFolder('generate');
const at = (name: string): string => path.join(root, name);
let model: string;
const jsonl = (name: string, rows: readonly unknown[]): string => {
  writeFileSync(at(name), rows.map((row) => JSON.stringify(row)).join('\n'));
  return at(name);
};
async function rowsOf(file: string): Promise<Row[]> {
  const table = await openTable(file);
  const rows: Row[] = [];
  for await (const row of table.rows()) rows.push(row);
  await table.close();
  return rows;
}

beforeAll(async () => {
  model = await makeTinyModel(at('model'));
  await writeParquet(
    at('prompts.parquet'),
    Array.from({ length: 6 }, (_, k) => ({
      data_source: 'openai/gsm8k',
      prompt: [{ role: 'user', content: `What is ${k} + 1?` }],
      reward_model: { style: 'rule', ground_truth: String(k + 1) },
      extra_info: { index: k },
    })),
  );
});

const words = (output: string, ...more: string[]): string[] => [
  'generate',
  `model.path=${model}`,
  `data.path=${at('prompts.parquet')}`,
  `data.output_path=${at(output)}`,
  'data.n_samples=3',
  'data.batch_size=2',
  'rollout.response_length=8',
  'rollout.prompt_length=64',
  'trainer.device=cpu',
  ...more,
];

describe('verlet generate', () => {
  it('adds a column of responses to the rows', async () => {
    const { exitCode, printed, noted } = await verlet(words('all.parquet', 'rollout.calculate_log_probs=true'));
    expect(exitCode, noted).toBe(0);
    expect(printed).toMatch(/^6 rows in .*all.parquet \(\d+ tokens, \d+ tokens\/s\)$/);
    expect(noted).toContain('answering: 6/6');
    const rows = await rowsOf(at('all.parquet'));
    expect(rows.map(({ extra_info }) => (extra_info as { index: number }).index)).toEqual([0, 1, 2, 3, 4, 5]);
    for (const row of rows) {
      expect(row.responses).toHaveLength(3);
      expect(row.reward_model).toEqual({ style: 'rule', ground_truth: expect.any(String) });
      for (const logProbs of row.responses_log_probs as number[][])
        expect(Math.max(...logProbs)).toBeLessThanOrEqual(0);
    }
    expect(readdirSync(root).filter((name) => name.includes('partial') || name.includes('.tmp'))).toEqual([]);
    expect((await verlet(words('all.parquet'))).noted).toContain('is there already');
  });

  it('goes on where it was stopped, with the same responses', async () => {
    await verlet(words('whole.jsonl'));
    const whole = await rowsOf(at('whole.jsonl'));
    const controller = new AbortController();
    controller.abort();
    const stopped = await verlet(words('parts.jsonl'), { signal: controller.signal });
    expect(stopped.exitCode).toBe(130);
    expect(existsSync(at('parts.jsonl'))).toBe(false);
    // What a kill in the middle leaves: some whole lines, one cut short.
    const partial = at('parts.jsonl.partial.jsonl');
    const kept = [0, 3].map((row) => JSON.stringify({ row, responses: (whole[row] as Row).responses }));
    writeFileSync(partial, `${readFileSync(partial, 'utf8')}${kept.join('\n')}\n{"row":1,"respon`);
    const other = await verlet(words('parts.jsonl', 'rollout.temperature=0.5'));
    expect(other.noted).toMatch(/holds 2 rows made with other settings \(sampling was .*--restart/);
    const resumed = await verlet(words('parts.jsonl', 'data.batch_size=5'));
    expect(resumed.noted).toContain('2 of 6 rows were finished before');
    expect(await rowsOf(at('parts.jsonl'))).toEqual(whole);
    expect(existsSync(partial)).toBe(false);
  });

  it('keeps finished rows when one is bad, and says which', async () => {
    const file = jsonl('long.jsonl', [{ prompt: 'Hi' }, { prompt: 'x '.repeat(200) }, { prompt: 'Ho' }]);
    const run = (...more: string[]) => verlet(words('long.out.jsonl', `data.path=${file}`, ...more));
    const failed = await run();
    expect(failed.exitCode).toBe(1);
    expect(failed.noted).toMatch(
      /long.jsonl, row 1, column "prompt": the prompt has \d+ tokens, more than rollout.prompt_length=64/,
    );
    const again = await run('rollout.prompt_length=500');
    expect(again.exitCode, again.noted).toBe(0);
    expect(again.noted).toMatch(/[12] of 3 rows were finished before/);
    expect((await verlet(words('x.csv'))).noted).toContain('must end in .parquet or .jsonl');
    expect((await verlet(words('y.jsonl', 'data.prompt_key=promt'))).noted).toContain(
      'the file has data_source, prompt',
    );
  });

  it('answers with an adapter as with the merged model', async () => {
    jsonl('sft.jsonl', [{ question: 'Hi', answer: 'Ho' }]);
    const tuned = await verlet([
      'sft',
      `data.train_files=${at('sft.jsonl')}`,
      `model.partial_pretrain=${model}`,
      'data.train_batch_size=1',
      'data.micro_batch_size_per_gpu=1',
      'model.lora_rank=4',
      'optim.lr=0.05',
      'trainer.total_training_steps=3',
      'trainer.device=cpu',
      `trainer.default_local_dir=${at('lora')}`,
    ]);
    expect(tuned.exitCode, tuned.noted).toBe(0);
    const greedy = 'rollout.do_sample=false';
    await verlet(
      words('adapter.jsonl', greedy, `model.lora_adapter_path=${at('lora/global_step_3/actor/lora_adapter')}`),
    );
    await verlet(words('merged.jsonl', greedy, `model.path=${at('lora')}`));
    await verlet(words('base.jsonl', greedy));
    const answers = async (name: string) => (await rowsOf(at(name))).map(({ responses }) => responses);
    expect(await answers('adapter.jsonl')).toEqual(await answers('merged.jsonl'));
    expect(await answers('adapter.jsonl')).not.toEqual(await answers('base.jsonl'));

    const served = new AbortController();
    const lines: string[] = [];
    const serving = runCommandLine(['serve', at('lora'), '--port', '0', '--device', 'cpu'], {
      io: { print: (line) => lines.push(line), note: () => {} },
      signal: served.signal,
    });
    await vi.waitFor(() => expect(lines).toHaveLength(1), { timeout: 30_000 });
    const response = await fetch(`${/http:\S+/.exec(lines[0]!)![0]}/models`);
    expect(await response.json()).toMatchObject({ data: [{ id: 'lora' }] });
    served.abort();
    expect(await serving).toBe(0);
  });

  it('holds no responses in memory', () => {
    // 150 MB of responses go through a process that has 96 MB for its objects.
    const { status, stderr } = spawnSync(
      process.execPath,
      ['--max-old-space-size=96', '--import', 'tsx', path.join(import.meta.dirname, 'many-responses.ts'), at('many')],
      { encoding: 'utf8', timeout: 120_000 },
    );
    expect(status, stderr).toBe(0);
  }, 130_000);
});

describe('estimates', () => {
  it('pass@k is the share of subsets with a correct sample', () => {
    fc.assert(
      fc.property(fc.array(fc.boolean(), { minLength: 1, maxLength: 8 }), fc.nat(), (correct, pick) => {
        const n = correct.length;
        const k = 1 + (pick % n);
        let all = 0;
        let good = 0;
        for (let subset = 0; subset < 1 << n; subset++) {
          const members = correct.filter((_, i) => (subset >> i) & 1);
          if (members.length !== k) continue;
          all++;
          if (members.includes(true)) good++;
        }
        expect(passAtK(n, correct.filter(Boolean).length, k)).toBeCloseTo(good / all, 10);
      }),
    );
  });

  it('votes leave out samples without an answer', () => {
    const sample = (answer: string | null, isCorrect: boolean) => ({ answer, isCorrect, score: Number(isCorrect) });
    const never = () => 0;
    expect(majorityAtK([sample('2', false), sample('3', true), sample('3', true)], 3, never)).toBe(1);
    expect(majorityAtK([sample(null, false), sample(null, false), sample('3', true)], 3, never)).toBe(1);
    expect(majorityAtK([sample(null, false)], 1, never)).toBe(0);
  });

  it('intervals hold the mean, are those of Wilson for shares, and narrow with more prompts', () => {
    const { low, high } = interval([1, 1, 1, 1, 1, 1, 1, 0, 0, 0]);
    expect([low, high].map((x) => x.toFixed(4))).toEqual(['0.3968', '0.8922']);
    expect(interval([1, 1, 1]).low).toBeLessThan(1);
    const values = Array.from({ length: 200 }, (_, k) => (k % 5) / 4);
    const few = interval(values.slice(0, 10));
    const many = interval(values);
    expect(many.low).toBeLessThan(0.5);
    expect(many.high).toBeGreaterThan(0.5);
    expect(many.high - many.low).toBeLessThan(few.high - few.low);
    expect(estimate([[{ score: 1, isCorrect: true, answer: 'a' }]]).map(({ name }) => name)).toEqual([
      'mean@1',
      'pass@1',
    ]);
  });

  it.each([
    ['so \\boxed{\\dfrac{1}{2}}', '\\frac{1}{2}'],
    ['#### 1,234', '1234'],
    ['Answer: $42$.', '42'],
    ['I do not know', null],
  ])('finalAnswer(%j)', (response, answer) => expect(finalAnswer(response)).toBe(answer));
});

describe('verlet eval', () => {
  const row = (truth: string, responses: string | string[], source = 'openai/gsm8k') => ({
    data_source: source,
    prompt: [{ role: 'user', content: 'Q' }],
    reward_model: { ground_truth: truth },
    responses,
  });

  it('scores by data source, with pass@k and maj@k', async () => {
    const file = jsonl('scored.jsonl', [
      row('5', ['#### 5', '#### 5', '#### 4', 'none']),
      row('6', ['#### 1', '#### 1', '#### 6', '#### 1']),
      row('7', ['\\boxed{7}', '\\boxed{8}', '\\boxed{7}', '\\boxed{7}'], 'HuggingFaceH4/MATH-500'),
    ]);
    const output = at('scores.jsonl');
    const { exitCode, printed } = await verlet(['eval', `data.path=${file}`, `data.output_path=${output}`]);
    expect(exitCode).toBe(0);
    expect(printed).toContain('openai/gsm8k: 2 prompts, 4 responses each');
    expect(printed).toMatch(/mean@4 {2}0\.3750 {2}95% \[/);
    expect(printed).toMatch(/pass@4 {2}1\.0000/);
    expect(printed).toMatch(/maj@4 {3}0\.5000/);
    expect(printed).toMatch(/HuggingFaceH4\/MATH-500: 1 prompt, 4 responses each\n {2}mean@4 {2}0\.7500/);
    expect((await rowsOf(output)).map(({ scores }) => scores)).toEqual([
      [1, 1, 0, 0],
      [0, 0, 1, 0],
      [1, 0, 1, 1],
    ]);
    const json = JSON.parse((await verlet(['eval', `data.path=${file}`, '--json'])).printed);
    expect(json.metrics['test_score/openai/gsm8k']).toBe(0.375);
    expect(json.metrics['openai/gsm8k/pass@1']).toBe(0.375);
  });

  it.each([
    ['GSM8K', { question: 'How many?', answer: 'Two.\n#### 2' }, 'openai/gsm8k'],
    [
      'MATH-500',
      { problem: 'P', solution: 'so \\boxed{2}', answer: '2', subject: 'Algebra', level: 1, unique_id: 'test/1' },
      'HuggingFaceH4/MATH-500',
    ],
    ['AIME-2024', { ID: '2024-I-1', Problem: 'P', Solution: 'long', Answer: 204 }, 'aime_2024'],
  ])('reads %s as published, answers with a model, scores', async (name, published, source) => {
    const file = jsonl(`${name}.jsonl`, [published, published]);
    const responses = at(`${name}.responses.parquet`);
    const { exitCode, printed, noted } = await verlet([
      'eval',
      '--model',
      model,
      '--responses',
      responses,
      `data.path=${file}`,
      'data.n_samples=2',
      'rollout.response_length=6',
      'rollout.prompt_length=256',
      'trainer.device=cpu',
    ]);
    expect(exitCode, noted).toBe(0);
    expect(noted).toContain(`the columns are those of ${name}`);
    expect(printed).toContain(`${source}: 2 prompts, 2 responses each`);
    expect((await rowsOf(responses))[0]!.data_source).toBe(source);
  });

  it('takes a reward function of one’s own, and says what is wrong', async () => {
    writeFileSync(
      at('mine.ts'),
      'export const compute_score = ({ solution_str }: { solution_str: string }) => solution_str.length / 10;',
    );
    const file = jsonl('own.jsonl', [row('5', 'abcde', 'mine')]);
    const own = await verlet([
      'eval',
      `data.path=${file}`,
      `custom_reward_function.path=${at('mine.ts')}`,
      '--pass-threshold',
      '0.5',
    ]);
    expect(own.printed).toMatch(/mean@1 {2}0\.5000 .*\n {2}pass@1 {2}1\.0000/);
    expect((await verlet(['eval', `data.path=${file}`])).noted).toMatch(
      /every one of the first 1 rewards failed.*no built-in score/,
    );
    const none = jsonl('none.jsonl', [{ ...row('5', 'x'), responses: null }]);
    expect((await verlet(['eval', `data.path=${none}`])).noted).toMatch(/row 0, column "responses": .*--model/);
    expect((await verlet(['eval', `data.path=${file}`, 'rollout.n=2'])).exitCode).toBe(2);
  });
});

describe('verlet export', () => {
  it('says what is wrong and leaves what is there', async () => {
    expect((await verlet(['export', model, model])).noted).toContain('is not empty');
    expect((await verlet(['export', root, at('out')])).noted).toContain('holds no model');
    mkdirSync(at('begun'));
    writeFileSync(at('begun/config.json'), JSON.stringify({ trainer: { save_freq: -1 } }));
    expect((await verlet(['export', at('begun'), at('out')])).noted).toContain('a run without a checkpoint');
    expect((await verlet(['export', model, at('out'), '--max-shard-size', 'large'])).exitCode).toBe(2);
    expect((await verlet(['export', model, at('out'), '--dtype', 'int4'])).exitCode).toBe(2);
    expect((await verlet(['export', model, at('out')])).printed).toMatch(/out: \d+ tensors, [\d.]+ kB in 1 file$/);
    expect((await verlet(['export', model, at('out')])).noted).toContain('--overwrite');
    expect((await verlet(['export', model, at('out'), '--overwrite'])).exitCode).toBe(0);
    expect(readFileSync(at('out/model.safetensors')).equals(readFileSync(path.join(model, 'model.safetensors')))).toBe(
      true,
    );
  });
});
