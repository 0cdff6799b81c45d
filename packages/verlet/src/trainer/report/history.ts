/** What a run folder tells about its run. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { type KeptExamples, type MetricRecord, readExamples, readRecords } from '../trackers/index.js';

export type Point = readonly [step: number, value: number];

export interface RunHistory {
  runFolder: string;
  /** One record a step, in order. */
  records: MetricRecord[];
  /** Steps with a checkpoint folder, in order. */
  checkpoints: number[];
  best: { step: number; metric: string | null; score: number | null } | null;
  first: KeptExamples | null;
  last: KeptExamples | null;
  /** Held-out rows and reward function of the run, as configured. */
  validationFile: string | null;
  rewardFile: string | null;
  /** Whether the run trains a model that scores answers instead of giving them. */
  isRewardModel: boolean;
}

export function readHistory(runFolder: string): RunHistory {
  const byStep = new Map<number, MetricRecord>();
  // A step can be written twice, as when a finished run is only validated again.
  for (const record of readRecords(path.join(runFolder, 'metrics.jsonl'))) {
    const before = byStep.get(record.step);
    byStep.set(record.step, before ? { ...record, data: { ...before.data, ...record.data } } : record);
  }
  const records = [...byStep.values()].sort((a, b) => a.step - b.step);
  const checkpoints = (existsSync(runFolder) ? readdirSync(runFolder) : [])
    .flatMap((name) => /^global_step_(\d+)$/.exec(name)?.[1] ?? [])
    .map(Number)
    .sort((a, b) => a - b);
  return {
    runFolder,
    records,
    checkpoints,
    best: bestCheckpoint(runFolder, records, checkpoints),
    first: readExamples(runFolder, 'first'),
    last: readExamples(runFolder, 'last'),
    ...configured(runFolder),
  };
}

function configured(runFolder: string): Pick<RunHistory, 'validationFile' | 'rewardFile' | 'isRewardModel'> {
  try {
    const config = JSON.parse(readFileSync(path.join(runFolder, 'config.json'), 'utf8')) as {
      data?: { val_files?: string | string[] | null };
      custom_reward_function?: { path?: string | null };
      objective?: { name?: string };
    };
    const files = [config.data?.val_files ?? []].flat();
    return {
      validationFile: files[0] ?? null,
      rewardFile: config.custom_reward_function?.path ?? null,
      isRewardModel: config.objective?.name === 'reward_model',
    };
  } catch {
    return { validationFile: null, rewardFile: null, isRewardModel: false };
  }
}

/** The values of a metric, step by step; steps without it (or with a value that is no number) are left out. */
export function seriesOf(records: readonly MetricRecord[], name: string): Point[] {
  return records.flatMap((record): Point[] => {
    const value = record.data[name];
    return value === undefined || !Number.isFinite(value) ? [] : [[record.step, value]];
  });
}

export function validationNames(records: readonly MetricRecord[]): string[] {
  return [...new Set(records.flatMap((record) => Object.keys(record.data)))].filter((name) =>
    name.startsWith('val-core/'),
  );
}

/** What fine-tuning validates by: less is better. */
export const HELD_OUT_LOSS = 'val/loss';

/** The checkpoint that the run kept as best, else the saved step that validated best, else the newest. */
function bestCheckpoint(
  runFolder: string,
  records: readonly MetricRecord[],
  checkpoints: readonly number[],
): RunHistory['best'] {
  if (checkpoints.length === 0) return null;
  const heldOut = records.some(({ data }) => HELD_OUT_LOSS in data) ? HELD_OUT_LOSS : null;
  const metric = validationNames(records)[0] ?? heldOut;
  const file = path.join(runFolder, 'checkpoint_tracker.json');
  if (existsSync(file)) {
    try {
      const kept = JSON.parse(readFileSync(file, 'utf8')) as {
        best_global_step: number;
        best_val_reward_score: number;
      };
      if (checkpoints.includes(kept.best_global_step))
        return { step: kept.best_global_step, metric, score: kept.best_val_reward_score };
    } catch {
      // An unreadable note is no reason to leave the run without a report: the metrics say it too.
    }
  }
  const saved = metric ? seriesOf(records, metric).filter(([step]) => checkpoints.includes(step)) : [];
  if (saved.length === 0) return { step: checkpoints.at(-1)!, metric: null, score: null };
  const sign = metric === HELD_OUT_LOSS ? -1 : 1;
  const [step, score] = saved.reduce((best, point) => (sign * point[1] > sign * best[1] ? point : best));
  return { step, metric, score };
}
