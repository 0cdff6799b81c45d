import path from 'node:path';
import type { DataProto } from '../../protocol/index.js';
import type { ValidationExample } from '../validation.js';
import { ConsoleTracker } from './console.js';
import { JsonlTracker, readRecords } from './jsonl.js';
import { LiveView } from './live-view.js';
import { MlflowTracker } from './mlflow.js';
import { type Decode, dumpRollouts } from './rollout-dump.js';
import { TensorboardTracker } from './tensorboard/index.js';
import { TrackerSet } from './tracker-set.js';
import type { TrackedConfig, Tracker } from './types.js';
import { ValidationExamples } from './validation-examples.js';
import { WandbTracker } from './wandb/index.js';

export interface TrackerOptions {
  runFolder: string;
  totalSteps: number;
  /** For rollout dumps, which show tokens as text. */
  decode?: Decode;
  /** The answers of the latest validation. */
  examples?: () => readonly ValidationExample[];
  /** Further places for metrics. */
  extra?: readonly Tracker[];
  environment?: NodeJS.ProcessEnv;
  terminal?: NodeJS.WriteStream;
}

/** A live view needs a terminal that a person looks at. */
export function wantsLiveView(terminal: { isTTY?: boolean }, environment: NodeJS.ProcessEnv): boolean {
  return Boolean(terminal.isTTY) && !environment.CI && environment.TERM !== 'dumb';
}

/** The trackers that `trainer.logger` names; `metrics.jsonl` in the run folder is written whatever it says. */
export function createTrackers(config: TrackedConfig, options: TrackerOptions): TrackerSet {
  const { runFolder, totalSteps, environment = process.env, terminal = process.stdout } = options;
  const { trainer } = config;
  const { project_name: project, experiment_name: experiment } = trainer;
  const names = [...new Set([trainer.logger].flat() as string[])];
  const metricsFile = path.join(runFolder, 'metrics.jsonl');
  const trackers: Tracker[] = [new JsonlTracker(metricsFile)];
  const notes: string[] = [];
  let set: TrackerSet | null = null;
  const onTrouble = (text: string): void => (set ? set.notice(text) : void notes.push(text));
  for (const name of names) {
    if (name === 'console')
      trackers.push(
        wantsLiveView(terminal, environment)
          ? new LiveView({
              title: experiment,
              totalSteps,
              terminal,
              others: [terminal, process.stderr] as never,
              history: () => readRecords(metricsFile),
            })
          : new ConsoleTracker(totalSteps, (line) => terminal.write(`${line}\n`)),
      );
    else if (name === 'file') {
      const file = fileOf(environment, project, experiment);
      if (file) trackers.push(new JsonlTracker(file));
    } else if (name === 'tensorboard')
      trackers.push(new TensorboardTracker(environment.TENSORBOARD_DIR ?? path.join(runFolder, 'tensorboard')));
    else if (name === 'wandb' || name === 'vemlp_wandb')
      trackers.push(new WandbTracker({ project, runName: experiment, runFolder, config, onTrouble, environment }));
    else if (name === 'mlflow') {
      const trackingUri = environment.MLFLOW_TRACKING_URI;
      if (trackingUri && /^https?:/.test(trackingUri))
        trackers.push(
          new MlflowTracker({
            trackingUri,
            experiment: project,
            runName: experiment,
            runFolder,
            config,
            onTrouble,
            environment,
          }),
        );
      else
        notes.push(
          `mlflow: MLFLOW_TRACKING_URI is ${trackingUri ? `'${trackingUri}', which is no server` : 'not set'}; start one with 'mlflow server' and set it to http://127.0.0.1:5000`,
        );
    } else
      notes.push(`trainer.logger: there is no client for '${name}'; metrics.jsonl in the run folder has everything`);
  }
  trackers.push(...(options.extra ?? []));
  const { examples, decode } = options;
  if (examples) {
    const shown = trainer.log_val_generations ?? 0;
    trackers.push(
      new ValidationExamples(runFolder, examples, (all, step) => {
        if (shown > 0) set?.generations(all.slice(0, shown), step);
      }),
    );
  }
  const folder = trainer.rollout_data_dir;
  const onRollouts =
    folder && decode ? (batch: DataProto, step: number) => dumpRollouts(folder, batch, step, decode) : undefined;
  set = new TrackerSet(trackers, onRollouts);
  for (const note of notes) set.notice(note);
  return set;
}

/** Where verl's file logger writes; without these variables `metrics.jsonl` is that file. */
function fileOf(environment: NodeJS.ProcessEnv, project: string, experiment: string): string | null {
  if (environment.VERL_FILE_LOGGER_PATH) return environment.VERL_FILE_LOGGER_PATH;
  const root = environment.VERL_FILE_LOGGER_ROOT;
  return root ? path.join(root, project, `${experiment}.jsonl`) : null;
}
