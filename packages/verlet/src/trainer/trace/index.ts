/** Traces: chosen steps and whole runs as files for Perfetto. */
import { isCudaAvailable, nvtxBegin } from '@verlet/torch';
import type { PpoConfig } from '../../config/index.js';
import type { CallObserver } from '../../controller/worker-group.js';
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

/** Puts each call to a rank on a line of its own, from the question to the answer. */
export function traceCalls(recorder: TraceRecorder): CallObserver {
  return (rank, role, method) => recorder.begin(method, `${role} rank ${rank}`);
}
