import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { countsDigits, type TinySetup, tinySetup } from '../../test/trainer/tiny.js';
import { loadDataProto } from '../protocol/index.js';
import type { TraceEvent } from './trace/index.js';
import { readRecords } from './trackers/index.js';
import { train } from './train.js';

let tiny: TinySetup;
beforeAll(async () => {
  tiny = await tinySetup();
});

const read = (...parts: string[]): string => readFileSync(path.join(...parts), 'utf8');

describe('what a person sees of a run', () => {
  it('is all there after a run that was resumed, each step once', async () => {
    const run = path.join(tiny.folder, 'seen');
    const config = (steps: number) =>
      tiny.config(
        `trainer.default_local_dir=${run}`,
        `data.val_files=${tiny.train}`,
        `trainer.total_training_steps=${steps}`,
        'trainer.save_freq=2',
        'trainer.test_freq=2',
        'trainer.logger=[tensorboard]',
        `trainer.rollout_data_dir=${run}/rollouts`,
        'trainer.profile_steps=[3]',
        `global_profiler.save_path=${run}/profile`,
        `ray_init.timeline_json_file=${run}/timeline.json`,
      );
    await train({ config: config(2), reward: countsDigits });
    const { metrics } = await train({ config: config(4), reward: countsDigits });
    expect(metrics['guard/constant_reward_groups']).toBeGreaterThanOrEqual(0);
    expect(readRecords(path.join(run, 'metrics.jsonl')).map((record) => record.step)).toEqual([0, 1, 2, 3, 4]);
    expect(read(run, 'rollouts', '4.jsonl').trim().split('\n')).toHaveLength(32);
    const timeline = JSON.parse(read(run, 'timeline.json')) as TraceEvent[];
    expect(timeline.filter((event) => event.name === 'step')).toHaveLength(4);
    const names = new Set(
      (JSON.parse(read(run, 'profile', 'step_3.trace.json')) as TraceEvent[]).map((event) => event.name),
    );
    for (const name of ['step', 'gen', 'update_actor', 'generateSequences', 'updateActor'])
      expect(names).toContain(name);
    const report = read(run, 'report.md');
    expect(report).toMatch(/best checkpoint\*\*: global_step_\d, openai\/gsm8k\/reward\/mean@1/);
    expect(report).toContain('## Answers at step 0 and at step 4');
    expect(existsSync(path.join(run, 'report.html'))).toBe(true);
  });

  it('is the batch, when a loss is not finite; the weights are not touched and nothing is saved over', async () => {
    const run = path.join(tiny.folder, 'diverged');
    const config = tiny.config(
      `trainer.default_local_dir=${run}`,
      'trainer.save_freq=1',
      'algorithm.norm_adv_by_std_in_grpo=false',
    );
    let scored = 0;
    // Finite, as a reward must be; but the second step's loss is a sum of them, which is not.
    const reward = ({ solution_str }: { solution_str: string }): number =>
      ++scored <= 32 ? countsDigits({ solution_str }) : scored % 2 ? 3e38 : -3e38;
    await expect(train({ config, reward })).rejects.toThrow(/step 2, update_actor: .*failed_batch_step_2/);
    const batch = loadDataProto(path.join(run, 'failed_batch_step_2'));
    expect(batch.length).toBe(32);
    batch.dispose();
    expect(JSON.parse(read(run, 'failed_batch_step_2', 'reason.json'))).toMatchObject({
      step: 2,
      phase: 'update_actor',
    });
    expect(read(run, 'latest_checkpointed_iteration.txt').trim()).toBe('1');
    expect(readRecords(path.join(run, 'metrics.jsonl')).map((record) => record.step)).toEqual([1]);
  });
});
