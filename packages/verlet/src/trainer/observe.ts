/** All that watches a run: trackers, guards and the trace, tied to one another. */
import path from 'node:path';
import type { PpoConfig } from '../config/index.js';
import type { DataProto } from '../protocol/index.js';
import { Guards } from './guards/index.js';
import { reportTracker } from './report/index.js';
import { createTraceRecorder, type TraceRecorder } from './trace/index.js';
import { createTrackers, readRecords, type Tracker, type TrackerOptions, type TrackerSet } from './trackers/index.js';

export interface RunObservers {
  trackers: TrackerSet;
  guards: Guards;
  trace: TraceRecorder;
  /** The same workers; an update that is not finite keeps its batch. */
  guarded<Group extends object>(group: Group): Group;
}

export interface ObserveOptions extends TrackerOptions {
  /** The step that is being done. */
  currentStep: () => number;
}

export function observeRun(config: PpoConfig, options: ObserveOptions): RunObservers {
  const { runFolder, currentStep } = options;
  // Everyone may have something to say, and only the trackers know where it is shown.
  let trackers: TrackerSet | undefined;
  const say = (text: string): void => trackers?.notice(text);
  const trace = createTraceRecorder(config, say);
  const guards = new Guards({ runFolder, warn: say });
  const tracer: Tracker = {
    name: 'trace',
    start: (step) => trace.start(step),
    log(metrics, step) {
      trace.counter('score', metrics['critic/score/mean']);
      trace.counter('tokens/s', metrics['perf/throughput']);
      trace.endStep(step);
    },
    finish: () => trace.close(),
  };
  const historian: Tracker = {
    name: 'guards',
    start(step) {
      const before = readRecords(path.join(runFolder, 'metrics.jsonl'));
      guards.replay(before.filter((record) => record.step > 0 && record.step <= step).map((record) => record.data));
    },
    log() {},
  };
  const isPrinted = [config.trainer.logger].flat().includes('console');
  const print = isPrinted ? (text: string) => void process.stdout.write(`${text}\n`) : undefined;
  const reporter = reportTracker(runFolder, config.trainer.experiment_name, print);
  // The report comes last: it reads what the others wrote, and prints when the live view is gone.
  const extra = [historian, tracer, ...(options.extra ?? []), reporter];
  trackers = createTrackers(config, { ...options, extra });
  return {
    trackers,
    guards,
    trace,
    guarded: (group) => guardedGroup(group, guards, currentStep),
  };
}

const UPDATES: Readonly<Record<string, string>> = { updateActor: 'update_actor', updateCritic: 'update_critic' };

function guardedGroup<Group extends object>(group: Group, guards: Guards, currentStep: () => number): Group {
  return new Proxy(group, {
    get(target, key) {
      const value = Reflect.get(target, key, target) as unknown;
      if (typeof value !== 'function' || typeof key !== 'string') return value;
      const phase = UPDATES[key];
      if (!phase) return value.bind(target) as unknown;
      return (batch: DataProto, ...rest: unknown[]) =>
        guards.update(phase, currentStep(), batch, () => value.call(target, batch, ...rest) as Promise<DataProto>);
    },
  });
}
