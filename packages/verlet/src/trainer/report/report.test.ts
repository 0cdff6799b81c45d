import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { JsonlTracker } from '../trackers/index.js';
import { chartsSvg, ticks } from './chart.js';
import { readHistory, writeRunReport } from './index.js';

const METRIC = 'val-core/gsm8k/acc/mean@1';

function runFolder({ checkpoints = [2, 4], examples = true } = {}): string {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'verlet-report-'));
  const tracker = new JsonlTracker(path.join(folder, 'metrics.jsonl'));
  tracker.log({ [METRIC]: 0.25 }, 0);
  for (let step = 1; step <= 4; step++)
    tracker.log(
      {
        'critic/score/mean': step / 4,
        'timing_s/step': 2,
        'timing_s/gen': 1,
        'timing_s/update_actor': 0.5,
        'timing_s/agent_loop/slowest/tool_calls': 99,
        'perf/total_num_tokens': 1000,
        ...(step % 2 === 0 ? { [METRIC]: step === 2 ? 0.9 : 0.8 } : {}),
      },
      step,
    );
  for (const step of checkpoints) mkdirSync(path.join(folder, `global_step_${step}`));
  const example = (prompt: string, response: string, score: number) => ({
    prompt,
    response,
    score,
    dataSource: 's',
    groundTruth: '7',
  });
  if (examples) {
    const first = [example('2+5?', '3', 0), example('<script>alert(1)</script>', 'same', 1)];
    const last = [example('2+5?', 'so ```7```', 1), example('<script>alert(1)</script>', 'same', 1)];
    writeFileSync(path.join(folder, 'validation_first.json'), JSON.stringify({ step: 0, examples: first }));
    writeFileSync(path.join(folder, 'validation_last.json'), JSON.stringify({ step: 4, examples: last }));
  }
  return folder;
}

describe('the report of a run', () => {
  it('says curve, best checkpoint, timing, answers before and after, and what next', () => {
    const folder = runFolder();
    const config = { data: { val_files: ['my test.parquet'] }, custom_reward_function: { path: 'reward.ts' } };
    writeFileSync(path.join(folder, 'config.json'), JSON.stringify(config));
    const { summary, files, bestFolder } = writeRunReport(folder, 'my run');
    expect(bestFolder).toBe(path.join(folder, 'global_step_2', 'actor', 'huggingface'));
    expect(summary).toMatch(/validation gsm8k\/acc\/mean@1 +0.250 ▁█▇ 0.800 \(lowest 0.250, highest 0.900\)/);
    expect(summary).toContain(`verlet chat ${bestFolder}`);
    expect(summary).toMatch(/before {2}3 {2}\(score 0\)\n {2}after {3}so ```7``` {2}\(score 1.000\)/);
    const markdown = readFileSync(files.markdown, 'utf8');
    expect(markdown).toContain('global_step_2, gsm8k/acc/mean@1 0.900');
    expect(markdown).toContain('| gen | 0:04 | 50.0% |');
    expect(markdown).toContain('| other | 0:02 | 25.0% |');
    expect(markdown).toContain('````text\nso ```7```\n````');
    expect(markdown).toContain(
      `verlet eval --model ${bestFolder} data.path='my test.parquet' custom_reward_function.path=reward.ts`,
    );
    expect(markdown).toContain(`verlet export ${path.join(folder, 'global_step_2')} `);
  });

  it('is one page that fetches nothing and runs nothing, whatever a model wrote', () => {
    const html = readFileSync(writeRunReport(runFolder(), 'a <b>').files.html, 'utf8');
    expect(html).not.toMatch(/<script|src=|href=|url\(/);
    expect(html).toContain('&#60;script&#62;alert(1)');
    expect(html).toContain('<h1>a &#60;b&#62;</h1>');
    expect(html).toContain('<polyline');
  });

  it('has something to say about runs of which little is left', () => {
    const bare = runFolder({ checkpoints: [], examples: false });
    expect(writeRunReport(bare, 'run').bestFolder).toBeNull();
    const empty = mkdtempSync(path.join(os.tmpdir(), 'verlet-report-'));
    expect(writeRunReport(empty, 'run').summary).toContain('verlet dashboard');
  });

  it('takes the best checkpoint that is still there', () => {
    expect(readHistory(runFolder({ checkpoints: [4] })).best).toMatchObject({ step: 4, score: 0.8 });
    const kept = runFolder({ checkpoints: [3, 4] });
    writeFileSync(path.join(kept, 'checkpoint_tracker.json'), '{"best_global_step":3,"best_val_reward_score":0.95}');
    expect(readHistory(kept).best).toMatchObject({ step: 3, score: 0.95 });
  });
});

describe('charts', () => {
  it('put round numbers on their axes', () => {
    expect(ticks(0, 1)).toEqual([0, 0.2, 0.4, 0.6, 0.8, 1]);
    expect(ticks(0.13, 0.94)).toEqual([0.2, 0.4, 0.6, 0.8]);
    expect(ticks(5, 5)).toEqual([5]);
  });

  it('draw inside their frame, also when nothing changes or nothing is there', () => {
    const flat = chartsSvg([
      {
        title: 't',
        series: [
          {
            label: 's',
            points: [
              [1, 3],
              [2, 3],
            ],
          },
        ],
      },
      { title: 'none', series: [] },
    ]);
    const numbers = [...flat.matchAll(/points="([^"]+)"/g)].flatMap(([, text]) => text!.split(/[ ,]/).map(Number));
    expect(numbers.every((value) => value >= 0 && value <= 420)).toBe(true);
    expect(flat).not.toMatch(/NaN|Infinity/);
  });
});
