/** What a report says, before it is written in some format. */
import { existsSync } from 'node:fs';
import path from 'node:path';
import { clock, count, klOf, short } from '../trackers/words.js';
import type { ValidationExample } from '../validation.js';
import type { Chart } from './chart.js';
import { HELD_OUT_LOSS, type Point, type RunHistory, seriesOf, validationNames } from './history.js';

export interface Curve {
  label: string;
  points: Point[];
}

export interface BeforeAfter {
  prompt: string;
  groundTruth: unknown;
  before: { response: string; score: number };
  after: { response: string; score: number };
}

export interface ReportContent {
  title: string;
  runFolder: string;
  steps: number;
  facts: [label: string, value: string][];
  curves: Curve[];
  charts: Chart[];
  timing: { phase: string; seconds: number; share: number }[];
  samples: { firstStep: number; lastStep: number; pairs: BeforeAfter[] } | null;
  bestFolder: string | null;
  commands: [command: string, purpose: string][];
}

export function reportContent(history: RunHistory, title: string): ReportContent {
  const { records, runFolder, best } = history;
  const trained = records.filter((record) => record.step > 0);
  const lastStep = records.at(-1)?.step ?? 0;
  const curve = (label: string, name: string): Curve => ({ label, points: seriesOf(records, name) });
  const validations = validationNames(records).map((name) => curve(name.slice('val-core/'.length), name));
  const kl = trained.flatMap((record): Point[] => {
    const value = klOf(record.data);
    return value === undefined || !Number.isFinite(value) ? [] : [[record.step, value]];
  });
  const curves: Curve[] = [
    curve('reward', 'critic/score/mean'),
    curve('loss', 'train/loss'),
    curve('held-out loss', HELD_OUT_LOSS),
    curve('accuracy', 'train/accuracy'),
    curve('held-out accuracy', 'val/accuracy'),
    ...validations.map(({ label, points }) => ({ label: `validation ${label}`, points })),
    curve('response length', 'response_length/mean'),
    curve('entropy', 'actor/entropy'),
    { label: 'KL', points: kl },
  ].filter(({ points }) => points.length > 0);
  const validationChart: Chart = { title: 'validation', series: validations };
  const charts = curves
    .filter(({ label }) => !label.startsWith('validation '))
    .map(({ label, points }): Chart => ({ title: label, series: [{ label, points }] }));
  if (validations.length) charts.splice(1, 0, validationChart);
  const bestFolder = best ? modelFolder(path.join(runFolder, `global_step_${best.step}`)) : null;
  return {
    title,
    runFolder,
    steps: lastStep,
    facts: facts(history),
    curves,
    charts,
    timing: timing(history),
    samples: samples(history),
    bestFolder,
    commands: commands(history, bestFolder),
  };
}

function facts({ records, best }: RunHistory): [string, string][] {
  const trained = records.filter((record) => record.step > 0);
  const sum = (name: string): number => trained.reduce((total, { data }) => total + (data[name] ?? 0), 0);
  const seconds = sum('timing_s/step') + sum('timing_s/testing') + sum('timing_s/save_checkpoint');
  const tokens = sum('perf/total_num_tokens');
  const lines: [string, string][] = [['steps', String(records.at(-1)?.step ?? 0)]];
  if (seconds > 0) lines.push(['time', clock(seconds)]);
  if (tokens > 0) lines.push(['tokens', `${count(tokens)}, ${count(tokens / (sum('timing_s/step') || 1))} a second`]);
  if (best)
    lines.push([
      'best checkpoint',
      `global_step_${best.step}${best.score === null ? ' (the newest; nothing was validated)' : `, ${validationWords(best.metric)} ${short(best.score)}`}`,
    ]);
  const warned = trained.filter(({ data }) => (data['guard/active_warnings'] ?? 0) > 0).length;
  if (warned > 0) lines.push(['guards', `a warning stood in ${warned} of ${trained.length} steps`]);
  return lines;
}

function validationWords(metric: string | null): string {
  if (metric === null) return 'validation';
  return metric === HELD_OUT_LOSS ? 'held-out loss' : metric.slice('val-core/'.length);
}

/** Phases that contain others are left out: shares add up to one step. */
const WHOLES = new Set(['step', 'gen_max', 'update_weights']);

function timing({ records }: RunHistory): ReportContent['timing'] {
  const totals = new Map<string, number>();
  let whole = 0;
  for (const { data } of records) {
    whole += (data['timing_s/step'] ?? 0) + (data['timing_s/testing'] ?? 0) + (data['timing_s/save_checkpoint'] ?? 0);
    for (const [name, value] of Object.entries(data)) {
      const phase = /^timing_s\/([a-z_]+)$/.exec(name)?.[1];
      if (phase && !WHOLES.has(phase) && Number.isFinite(value)) totals.set(phase, (totals.get(phase) ?? 0) + value);
    }
  }
  const phases = [...totals].sort((a, b) => b[1] - a[1]);
  const rest = whole - phases.reduce((total, [, seconds]) => total + seconds, 0);
  if (rest > whole * 0.01) phases.push(['other', rest]);
  return phases.map(([phase, seconds]) => ({ phase, seconds, share: whole > 0 ? seconds / whole : 0 }));
}

const SAMPLES = 4;

/** Pairs by prompt; what improved comes first, then what got worse, then what stayed. */
function samples({ first, last }: RunHistory): ReportContent['samples'] {
  if (!first || !last || first.step === last.step) return null;
  const later = new Map<string, ValidationExample[]>();
  for (const example of last.examples) later.set(example.prompt, [...(later.get(example.prompt) ?? []), example]);
  const pairs = first.examples.flatMap((before): BeforeAfter[] => {
    const after = later.get(before.prompt)?.shift();
    return after ? [{ prompt: before.prompt, groundTruth: before.groundTruth, before, after }] : [];
  });
  const gain = (pair: BeforeAfter): number => pair.after.score - pair.before.score;
  const better = pairs.filter((pair) => gain(pair) > 0);
  const worse = pairs.filter((pair) => gain(pair) < 0);
  const same = pairs.filter((pair) => gain(pair) === 0);
  const chosen = [...better.slice(0, SAMPLES - 1), ...worse.slice(0, 1), ...same, ...better.slice(SAMPLES - 1)];
  return chosen.length ? { firstStep: first.step, lastStep: last.step, pairs: chosen.slice(0, SAMPLES) } : null;
}

/** Reinforcement learning saves an actor, fine-tuning a model alone. */
function modelFolder(checkpoint: string): string {
  const alone = path.join(checkpoint, 'huggingface');
  return existsSync(alone) ? alone : path.join(checkpoint, 'actor', 'huggingface');
}

function commands(
  { runFolder, best, validationFile, rewardFile, isRewardModel }: RunHistory,
  bestFolder: string | null,
): [string, string][] {
  const word = (text: string): string => (/^[\w./:@%+=-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
  const look: [string, string] = [`verlet dashboard ${word(runFolder)}`, 'curves and trajectories in the browser'];
  if (!bestFolder || !best) return [look];
  const model = word(bestFolder);
  const reward = rewardFile ? ` custom_reward_function.path=${word(rewardFile)}` : '';
  const checkpoint = word(path.join(runFolder, `global_step_${best.step}`));
  if (isRewardModel) {
    const scored = `reward_model.enable=true reward_model.model.path=${model}`;
    return [[`verlet train --config run.yaml ${scored}`, 'train a policy that it scores'], look];
  }
  return [
    [`verlet chat ${model}`, 'talk to it'],
    [`verlet serve ${model}`, 'serve it to OpenAI clients'],
    [
      `verlet eval --model ${model} data.path=${word(validationFile ?? 'questions.parquet')}${reward}`,
      'score its answers',
    ],
    [`verlet export ${checkpoint} ${word(path.join(runFolder, 'export'))}`, 'a folder to publish'],
    look,
  ];
}
