/**
 * The loop of everything that learns from a fixed set of examples: batches in a seeded order, one optimiser step each,
 * validation, checkpoints, metrics. What the loss is, the learner knows.
 */
import { type SftConfig, UserError } from '../../config/index.js';
import { DataLoader, type ItemSource } from '../../data/index.js';
import { type Checkpointed, Checkpoints } from '../checkpoints.js';
import { isNonFinite, keepFailedExamples } from '../guards/index.js';
import { reportTracker } from '../report/index.js';
import { openRunFolder } from '../run-folder.js';
import { wantsLiveView } from '../trackers/create.js';
import { createTrackers, type Tracker, type TrackerSet } from '../trackers/index.js';
import { LossConsole } from './console.js';
import type { Learner } from './learner.js';

export interface RunOptions {
  config: SftConfig;
  /** Further places for metrics. */
  trackers?: readonly Tracker[];
  /** Finish the step, save and stop. */
  signal?: AbortSignal;
  /** Where console lines go. */
  write?: (line: string) => void;
}

export interface RunResult {
  globalStep: number;
  /** The last step's metrics. */
  metrics: Record<string, number>;
  runFolder: string;
  /** The checkpoint that was written last, if one was. */
  checkpoint: string | null;
  interrupted: boolean;
}

export interface FineTuneParts<Item> {
  train: ItemSource<Item>;
  validation: ItemSource<Item> | null;
  createLearner(totalSteps: number): Promise<Learner<Item>>;
}

export async function fineTune<Item>(options: RunOptions, parts: FineTuneParts<Item>): Promise<RunResult> {
  const { config, signal } = options;
  const { trainer: settings, data } = config;
  if (parts.train.length < data.train_batch_size)
    throw new UserError(
      `there are ${parts.train.length} training examples, fewer than data.train_batch_size=${data.train_batch_size}; ` +
        'lower that or add data',
      { exitCode: 2 },
    );
  const loader = new DataLoader(parts.train, {
    batchSize: data.train_batch_size,
    shuffle: data.shuffle,
    seed: settings.seed,
    dropLast: true,
  });
  const totalSteps = settings.total_training_steps ?? loader.batchesPerEpoch * settings.total_epochs;
  const runFolder = await openRunFolder(config);
  const learner = await parts.createLearner(totalSteps);
  const checkpoints = stepCheckpoints(settings, learner, loader);
  const trackers = trackersOf(options, runFolder, totalSteps);
  const result: RunResult = { globalStep: 0, metrics: {}, runFolder, checkpoint: null, interrupted: false };
  let outcome: 'finished' | 'interrupted' | 'failed' = 'failed';
  try {
    const state = { globalStep: 0 };
    state.globalStep = await checkpoints.resume(state);
    await trackers.start(state.globalStep);
    if (state.globalStep > 0) options.write?.(`going on after step ${state.globalStep}`);
    while (state.globalStep < totalSteps && !result.interrupted) {
      const started = performance.now();
      const epoch = loader.epochIndex;
      const items = await loader.next();
      const metrics = await stepOrKeep(learner, items, state.globalStep, runFolder);
      state.globalStep++;
      const seconds = (performance.now() - started) / 1000;
      metrics['train/epoch'] = epoch;
      metrics['timing_s/step'] = seconds;
      if (metrics['train/tokens'] !== undefined)
        metrics['train/tokens_per_second'] = metrics['train/tokens'] / Math.max(seconds, 1e-9);
      const last = state.globalStep === totalSteps;
      const isDue = (every: number): boolean => every > 0 && state.globalStep % every === 0;
      if (parts.validation && (last || isDue(settings.test_freq)))
        Object.assign(metrics, await validate(learner, parts.validation, data.train_batch_size));
      // A signal that came while the step ran is heard here: what was learnt is saved before the run ends.
      await new Promise((resolve) => setImmediate(resolve));
      result.interrupted = signal?.aborted ?? false;
      if (last || result.interrupted || isDue(settings.save_freq)) result.checkpoint = await checkpoints.save(state);
      trackers.log(metrics, state.globalStep);
      result.metrics = metrics;
    }
    result.globalStep = state.globalStep;
    outcome = result.interrupted ? 'interrupted' : 'finished';
    return result;
  } finally {
    await trackers.finish(outcome);
    await learner.close();
  }
}

/** A loss or gradient that is not finite ends the run before it changes a weight; what caused it is kept. */
async function stepOrKeep<Item>(learner: Learner<Item>, items: readonly Item[], progress: number, runFolder: string) {
  try {
    return await learner.step(items, progress);
  } catch (error) {
    if (isNonFinite(error)) throw keepFailedExamples({ runFolder, step: progress + 1, items, error });
    throw error;
  }
}

/** In a terminal the trainer's live view; in logs and pipes a line a step about losses. The report comes last, as in training. */
function trackersOf({ config, trackers = [], write }: RunOptions, runFolder: string, totalSteps: number): TrackerSet {
  const names = [config.trainer.logger].flat() as string[];
  const print = write ?? ((line: string) => console.log(line));
  const report = reportTracker(
    runFolder,
    config.trainer.experiment_name,
    names.includes('console') ? print : undefined,
  );
  if (!names.includes('console') || wantsLiveView(process.stdout, process.env))
    return createTrackers(config, { runFolder, totalSteps, extra: [...trackers, report] });
  const lines = new LossConsole(totalSteps, print);
  const logger = names.filter((name) => name !== 'console');
  return createTrackers(
    { trainer: { ...config.trainer, logger } },
    { runFolder, totalSteps, extra: [lines, ...trackers, report] },
  );
}

/** The trainer's own step folders. */
function stepCheckpoints<Item>(settings: SftConfig['trainer'], learner: Learner<Item>, loader: DataLoader<Item>) {
  const member: Checkpointed = {
    name: 'actor',
    saveCheckpoint: (folder) => learner.saveCheckpoint(folder),
    loadCheckpoint: (folder) => learner.loadCheckpoint(folder),
  };
  return new Checkpoints({ ...settings, max_actor_ckpt_to_keep: settings.max_ckpt_to_keep }, [member], loader);
}

/** A batch at a time, so that a held-out set of any size fits. */
async function validate<Item>(learner: Learner<Item>, source: ItemSource<Item>, batchSize: number) {
  const sums: Record<string, number> = {};
  let total = 0;
  for (let start = 0; start < source.length; start += batchSize) {
    const size = Math.min(batchSize, source.length - start);
    const items = await source.items(Array.from({ length: size }, (_, k) => start + k));
    const { metrics, weight } = await learner.validate(items);
    for (const [name, value] of Object.entries(metrics)) sums[name] = (sums[name] ?? 0) + value * weight;
    total += weight;
  }
  return Object.fromEntries(Object.entries(sums).map(([name, sum]) => [name, sum / Math.max(1, total)]));
}
