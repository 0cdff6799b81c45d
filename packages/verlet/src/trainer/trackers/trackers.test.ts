import { appendFileSync, existsSync, mkdtempSync, readdirSync, readFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { tensor } from '@verlet/torch';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { DataProto } from '../../protocol/index.js';
import { ConsoleTracker } from './console.js';
import { createTrackers, wantsLiveView } from './create.js';
import { JsonlTracker, readRecords } from './jsonl.js';
import { LiveView } from './live-view.js';
import { dumpRollouts } from './rollout-dump.js';
import { condense, sparkline } from './sparkline.js';
import { TrackerSet } from './tracker-set.js';
import type { Tracker } from './types.js';
import { clock, count, short } from './words.js';

const folder = (): string => mkdtempSync(path.join(os.tmpdir(), 'verlet-trackers-'));

describe('metrics.jsonl', () => {
  it('goes on after a resume without a step twice, also after a kill in the middle of a line', () => {
    const file = path.join(folder(), 'run', 'metrics.jsonl');
    const first = new JsonlTracker(file);
    first.start(0);
    for (let step = 0; step <= 7; step++) first.log({ score: step }, step);
    appendFileSync(file, '{"step":8,"time":"2026-');
    const second = new JsonlTracker(file);
    second.start(5);
    for (let step = 6; step <= 9; step++) second.log({ score: step * 10 }, step);
    expect(readRecords(file).map(({ step, data }) => [step, data.score])).toEqual([
      [0, 0],
      [1, 1],
      [2, 2],
      [3, 3],
      [4, 4],
      [5, 5],
      [6, 60],
      [7, 70],
      [8, 80],
      [9, 90],
    ]);
    expect(readFileSync(file, 'utf8').trim().split('\n')).toHaveLength(10);
  });

  it('sets the file of an earlier run aside', () => {
    const home = folder();
    const file = path.join(home, 'metrics.jsonl');
    for (let run = 0; run < 3; run++) {
      const tracker = new JsonlTracker(file);
      tracker.start(0);
      tracker.log({ run }, 1);
    }
    expect(readdirSync(home).sort()).toEqual(['metrics.before-1.jsonl', 'metrics.before-2.jsonl', 'metrics.jsonl']);
    expect(readRecords(file)[0]!.data).toEqual({ run: 2 });
    expect(readRecords(path.join(home, 'metrics.before-1.jsonl'))[0]!.data).toEqual({ run: 0 });
  });

  it('keeps numbers that JSON has no word for', () => {
    const file = path.join(folder(), 'metrics.jsonl');
    new JsonlTracker(file).log({ a: Number.NaN, b: Infinity, c: -Infinity, d: 0.1 }, 1);
    expect(readRecords(file)[0]!.data).toEqual({ a: Number.NaN, b: Infinity, c: -Infinity, d: 0.1 });
  });
});

describe('a set of trackers', () => {
  it('goes on when one throws, says so once, and does not wait for a slow one', async () => {
    const seen: number[] = [];
    const said: string[] = [];
    const set = new TrackerSet(
      [
        {
          name: 'broken',
          log() {
            throw new Error('no disk');
          },
        },
        { name: 'stuck', log: () => new Promise(() => {}) },
        { name: 'screen', log: (_, step) => void seen.push(step), notice: (text) => void said.push(text) },
      ],
      undefined,
      0.05,
    );
    for (let step = 1; step <= 3; step++) set.log({ score: 1 }, step);
    expect(seen).toEqual([1, 2, 3]);
    await set.finish();
    expect(said).toEqual(['tracker broken: no disk', expect.stringMatching(/tracker stuck: no answer in 0.05 s/)]);
  });

  it('keeps the order for a tracker that takes its time', async () => {
    const seen: number[] = [];
    const slow: Tracker = {
      name: 'slow',
      async log(_, step) {
        await new Promise((resolve) => setTimeout(resolve, 5 - step));
        seen.push(step);
      },
    };
    const set = new TrackerSet([slow]);
    for (let step = 1; step <= 4; step++) set.log({}, step);
    await set.finish();
    expect(seen).toEqual([1, 2, 3, 4]);
  });

  it('is made from the names in the configuration, with notes about those that cannot be', async () => {
    const runFolder = folder();
    const written: string[] = [];
    const terminal = { isTTY: false, write: (text: string) => written.push(text) > 0 } as never;
    const trainer = {
      logger: ['console', 'file', 'tensorboard', 'mlflow', 'swanlab'],
      project_name: 'p',
      experiment_name: 'e',
      log_val_generations: 1,
    };
    const file = path.join(runFolder, 'elsewhere', 'log.jsonl');
    const example = { prompt: 'p', response: 'r', score: 1, dataSource: 's', groundTruth: 1 };
    const set = createTrackers(
      { trainer },
      {
        runFolder,
        totalSteps: 2,
        terminal,
        environment: { VERL_FILE_LOGGER_PATH: file },
        examples: () => [example, example],
      },
    );
    await set.start(0);
    set.log({ 'val-core/s/acc/mean@1': 0.5 }, 0);
    set.log({ 'critic/score/mean': 0.25 }, 1);
    await set.finish();
    expect(readRecords(path.join(runFolder, 'metrics.jsonl'))).toHaveLength(2);
    expect(readRecords(file)).toHaveLength(2);
    expect(existsSync(path.join(runFolder, 'tensorboard'))).toBe(true);
    const text = written.join('');
    expect(text).toMatch(/MLFLOW_TRACKING_URI is not set/);
    expect(text).toMatch(/no client for 'swanlab'/);
    expect(text).toMatch(/step 1\/2 score 0.250/);
    expect(JSON.parse(readFileSync(path.join(runFolder, 'validation_first.json'), 'utf8'))).toEqual({
      step: 0,
      examples: [example, example],
    });
  });
});

describe('the console', () => {
  it('says what people look at first, one line a step', () => {
    const lines: string[] = [];
    let seconds = 0;
    const tracker = new ConsoleTracker(
      10,
      (line) => lines.push(line),
      () => seconds,
    );
    seconds = 6;
    tracker.log({ 'critic/score/mean': 0.5, 'actor/ppo_kl': 2e-5, 'perf/throughput': 12345 }, 2);
    seconds = 12;
    tracker.log({ 'critic/score/mean': 0.75, 'val-core/gsm8k/acc/mean@4': 0.9 }, 3);
    expect(lines).toEqual([
      'step 2/10 score 0.500 kl 2.0e-5 tok/s 12.3k left 0:48',
      'step 3/10 score 0.750 left 0:42 val gsm8k acc mean@4 0.900',
    ]);
  });

  it('is live only where a person looks', () => {
    expect(wantsLiveView({ isTTY: true }, {})).toBe(true);
    expect(wantsLiveView({ isTTY: true }, { CI: '1' })).toBe(false);
    expect(wantsLiveView({ isTTY: true }, { TERM: 'dumb' })).toBe(false);
    expect(wantsLiveView({}, {})).toBe(false);
  });

  it('redraws in place, keeps what others print, and leaves the streams as they were', () => {
    const screen = new Screen();
    const original = screen.write;
    let seconds = 0;
    const view = new LiveView({ title: 'demo', totalSteps: 4, terminal: screen, others: [screen], now: () => seconds });
    view.start(0);
    view.log({ 'val-core/gsm8k/acc/mean@1': 0.25 }, 0);
    for (let step = 1; step <= 2; step++) {
      seconds = step * 10;
      view.log({ 'critic/score/mean': step / 4, 'response_length/mean': 18.25, 'perf/throughput': 2e4 }, step);
    }
    screen.write('a library says hello\n');
    view.notice('warning: look here');
    const shown = screen.lines();
    expect(shown.slice(0, 3)).toEqual([
      'validation at step 0: gsm8k acc mean@1 0.250',
      'a library says hello',
      'warning: look here',
    ]);
    expect(shown[3]).toMatch(/^demo {2}█{12}░{12} 50% {2}step 2\/4 {2}0:20 gone, 0:20 left$/);
    expect(shown.filter((line) => line.startsWith('  reward'))).toEqual(['  reward  0.500     ▁█']);
    expect(shown.join('\n')).toContain('20.0k tokens/s');
    view.finish();
    expect(screen.write).toBe(original);
  });

  it('knows the curve of the steps before a resume', () => {
    const screen = new Screen();
    const records = [1, 2, 3, 4].map((step) => ({ step, time: '', data: { 'critic/score/mean': step } }));
    const view = new LiveView({ title: 't', totalSteps: 9, terminal: screen, history: () => records });
    view.start(3);
    view.log({ 'critic/score/mean': 8 }, 4);
    expect(view.lines()[1]).toBe('  reward  8.000     ▁▂▃█');
  });

  it('never draws a line wider than the terminal: a wrapped line could not be cleared', () => {
    const screen = new Screen(30);
    const view = new LiveView({ title: 'a rather long title of a run', totalSteps: 4, terminal: screen });
    view.log({ 'critic/score/mean': 1, 'actor/entropy': 1, 'actor/grad_norm': 1, 'actor/ppo_kl': 1 }, 1);
    expect(Math.max(...view.lines().map((line) => [...line].length))).toBeLessThan(30);
  });
});

/** The two control sequences that the view uses, as a terminal obeys them. */
class Screen {
  private text: string[] = [''];
  constructor(readonly columns = 120) {}
  write = (text: string): boolean => {
    // biome-ignore lint/suspicious/noControlCharactersInRegex: that is what terminals read
    for (const part of text.split(/(\x1b\[\d+A\x1b\[0J)/)) {
      // biome-ignore lint/suspicious/noControlCharactersInRegex: as above
      const up = /^\x1b\[(\d+)A/.exec(part)?.[1];
      if (up) this.text = [...this.text.slice(0, Math.max(0, this.text.length - 1 - Number(up))), ''];
      else
        for (const [k, line] of part.split('\n').entries()) {
          if (k > 0) this.text.push('');
          this.text[this.text.length - 1] += line;
        }
    }
    return true;
  };
  lines = (): string[] => this.text.slice(0, -1);
}

describe('words and sparklines', () => {
  it('says numbers shortly', () => {
    expect([0, 7, 61, 3671, Number.NaN].map(clock)).toEqual(['0:00', '0:07', '1:01', '1:01:11', '?']);
    expect([0, 950, 12_345, 1.25e6].map(count)).toEqual(['0', '950', '12.3k', '1.25M']);
    expect([0, 0.00002, 0.5, 18.25, 250.4, -3.5].map(short)).toEqual(['0', '2.0e-5', '0.500', '18.3', '250', '-3.500']);
  });

  it('draws any curve in the width it was given', () => {
    expect(sparkline([0, 1, 2, 3, 4, 5, 6, 7])).toBe('▁▂▃▄▅▆▇█');
    expect(sparkline([3, 3, 3])).toBe('▁▁▁');
    fc.assert(
      fc.property(
        fc.array(fc.double({ min: -1e6, max: 1e6, noNaN: true })),
        fc.integer({ min: 1, max: 40 }),
        (values, width) => {
          expect([...sparkline(values, width)]).toHaveLength(Math.min(values.length, width));
          const kept = condense(values, width);
          if (values.length) expect(Math.max(...kept)).toBeLessThanOrEqual(Math.max(...values) + 1e-6);
        },
      ),
    );
  });
});

describe('rollout dumps', () => {
  it('say of each token what it was, whose it was and how likely', async () => {
    const trajectory = {
      uid: 'u1',
      promptIds: [1, 2],
      responseIds: [3, 4, 5],
      responseMask: [1, 0, 1],
      rolloutLogProbs: [-0.5, 0, -0.25],
      numTurns: 3,
      endReason: 'stop',
    };
    const batch = DataProto.fromDict({
      tensors: {
        responses: tensor([3, 4, 5, 0], { shape: [1, 4], dtype: 'int64' }),
        token_level_scores: tensor([0, 0, 1, 0], { shape: [1, 4] }),
        old_log_probs: tensor([-0.5, -9, -0.2501, -7], { shape: [1, 4] }),
      },
      nonTensors: {
        trajectory: [trajectory],
        agent_row: [{ data_source: 'gsm8k', reward_model: { ground_truth: '12' } }],
        reward_extra_info: [{ acc: 1 }],
      },
    });
    const home = folder();
    const decode = (ids: ArrayLike<number>): string => Array.from(ids, (id) => `<${id}>`).join('');
    await dumpRollouts(home, batch, 7, decode);
    await dumpRollouts(home, batch, 7, decode);
    expect(readdirSync(home)).toEqual(['7.jsonl']);
    const lines = readFileSync(path.join(home, '7.jsonl'), 'utf8').trim().split('\n');
    expect(lines.map((line) => JSON.parse(line))).toEqual([
      {
        acc: 1,
        step: 7,
        uid: 'u1',
        data_source: 'gsm8k',
        input: '<1><2>',
        output: '<3><4><5>',
        gts: '12',
        score: 1,
        num_turns: 3,
        end_reason: 'stop',
        tokens: ['<3>', '<4>', '<5>'],
        response_ids: [3, 4, 5],
        response_mask: [1, 0, 1],
        rollout_log_probs: [-0.5, 0, -0.25],
        old_log_probs: [-0.5, -9, -0.2501],
      },
    ]);
    batch.dispose();
  });
});
