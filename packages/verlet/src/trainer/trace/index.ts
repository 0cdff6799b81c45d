/** Traces: chosen steps and whole runs as files for Perfetto. */
import { isCudaAvailable, nvtxBegin } from '@verlet/torch';
import type { PpoConfig } from '../../config/index.js';
import { TraceRecorder } from './recorder.js';

export { TraceRecorder } from './recorder.js';
export { type TraceEvent, TraceFile } from './trace-file.js';

/** What `trainer.profile_steps`, `global_profiler` and `ray_init.timeline_json_file` ask for. */
export function createTraceRecorder(config: PpoConfig, onTrouble: (text: string) => void): TraceRecorder {
  const { global_profiler: profiler, ray_init: ray, trainer } = config;
  return new TraceRecorder({
    timelineFile: ray.timeline_json_file,
    steps: profiler.steps,
    stepsFolder: profiler.save_path,
    joinNeighbours: profiler.profile_continuous_steps,
    title: trainer.experiment_name,
    mark: isCudaAvailable() ? nvtxBegin : undefined,
    onTrouble,
  });
}

/** The same group of workers, with each call on the group's own line of the trace. */
export function tracedGroup<Group extends object>(group: Group, lane: string, recorder: TraceRecorder): Group {
  if (!recorder.isOn) return group;
  return new Proxy(group, {
    get(target, key) {
      const value = Reflect.get(target, key, target) as unknown;
      if (typeof value !== 'function' || typeof key !== 'string') return value;
      return (...args: unknown[]): unknown => {
        const end = recorder.begin(key, lane);
        const called = value.apply(target, args) as unknown;
        if (!(called instanceof Promise)) return called;
        return called.finally(end);
      };
    },
  });
}
