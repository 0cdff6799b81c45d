/** Records what a run does when: the phases of its steps and the calls to its workers, each on a line of its own. */
import path from 'node:path';
import { type TraceEvent, TraceFile } from './trace-file.js';

export interface TraceOptions {
  /** The whole run goes here. */
  timelineFile?: string | null;
  /** These steps go into files of their own. */
  steps?: readonly number[] | null;
  stepsFolder?: string;
  /** Neighbouring steps share a file. */
  joinNeighbours?: boolean;
  title?: string;
  /** Marks phases for the GPU's own profiler too; the returned call ends the mark. */
  mark?: (name: string) => () => void;
  onTrouble?: (text: string) => void;
}

const PHASES = 'phases';

export class TraceRecorder {
  private readonly lanes = new Map<string, number>();
  private readonly waiting: TraceEvent[] = [];
  private timeline: TraceFile | null = null;
  private recording: { file: TraceFile; last: number } | null = null;
  private readonly steps: Set<number>;
  private broken = false;
  /** Each process of a resumed run is a process of the trace: its lanes are its own. */
  private session = 1;

  constructor(private readonly options: TraceOptions) {
    this.steps = new Set(options.steps ?? []);
  }

  /** Whether anything is recorded at all; when not, nothing is measured either. */
  get isOn(): boolean {
    return !this.broken && (Boolean(this.options.timelineFile) || this.steps.size > 0);
  }

  /** The run begins or goes on: a timeline goes on in the same file. */
  start(step: number): void {
    this.session = step + 1;
    const file = this.options.timelineFile;
    if (file) this.tolerant(() => (this.timeline = new TraceFile(file, { append: step > 0 })));
  }

  /** Times a part of the run. Spans of one lane may nest, as the parts of a step do. */
  async span<T>(name: string, body: () => Promise<T>, lane = PHASES, args?: Record<string, unknown>): Promise<T> {
    const end = this.begin(name, lane, args);
    try {
      return await body();
    } finally {
      end();
    }
  }

  /** A span that starts now and ends with the returned call. */
  begin(name: string, lane = PHASES, args?: Record<string, unknown>): () => void {
    if (!this.isOn) return () => {};
    const start = now();
    const tid = this.lane(lane);
    // Only phases nest, which the profiler's marks must do.
    const unmark = lane === PHASES ? this.options.mark?.(name) : undefined;
    return () => {
      unmark?.();
      this.waiting.push({ name, cat: lane, ph: 'X', ts: start, dur: now() - start, pid: 1, tid, args });
    };
  }

  counter(name: string, value: number | undefined): void {
    if (this.isOn && value !== undefined && Number.isFinite(value))
      this.waiting.push({ name, ph: 'C', ts: now(), pid: 1, tid: 0, args: { value } });
  }

  /** A step (with its validation and save) is over: writes what it left. */
  endStep(step: number): void {
    if (!this.isOn) return;
    const events = this.taken();
    this.tolerant(() => {
      this.timeline?.add([...this.names(), ...events]);
      this.record(step, events);
    });
  }

  close(): void {
    this.tolerant(() => {
      if (this.waiting.length > 0) this.timeline?.add([...this.names(), ...this.taken()]);
      this.timeline?.close();
      this.recording?.file.close();
    });
    this.timeline = null;
    this.recording = null;
    this.broken = true;
  }

  private record(step: number, events: readonly TraceEvent[]): void {
    const { stepsFolder = 'outputs/profile', joinNeighbours = false } = this.options;
    if (!this.steps.has(step)) return;
    if (this.recording && !(joinNeighbours && this.recording.last === step - 1)) {
      this.recording.file.close();
      this.recording = null;
    }
    if (!this.recording) {
      const file = new TraceFile(path.join(stepsFolder, `step_${step}.trace.json`));
      file.add(this.allNames());
      this.recording = { file, last: step };
    }
    this.recording.last = step;
    this.recording.file.add(events);
    if (!(joinNeighbours && this.steps.has(step + 1))) {
      this.recording.file.close();
      this.recording = null;
    }
  }

  private lane(name: string): number {
    const known = this.lanes.get(name);
    if (known !== undefined) return known;
    this.lanes.set(name, this.lanes.size + 1);
    return this.lanes.size;
  }

  private readonly named = new Set<string>();

  /** Names of lanes that the timeline does not have yet. */
  private names(): TraceEvent[] {
    const fresh = this.allNames().filter((event) => !this.named.has(String(event.args!.name)));
    for (const event of fresh) this.named.add(String(event.args!.name));
    return fresh;
  }

  private allNames(): TraceEvent[] {
    const { title = 'verlet' } = this.options;
    const name = this.session === 1 ? title : `${title}, from step ${this.session}`;
    return [
      { name: 'process_name', ph: 'M', pid: this.session, tid: 0, args: { name } },
      ...[...this.lanes].map(
        ([lane, tid]): TraceEvent => ({ name: 'thread_name', ph: 'M', pid: this.session, tid, args: { name: lane } }),
      ),
    ];
  }

  /** What was recorded since; workers start before it is known where the run goes on. */
  private taken(): TraceEvent[] {
    return this.waiting.splice(0).map((event) => ({ ...event, pid: this.session }));
  }

  /** A disk that is full stops the trace, not the run. */
  private tolerant(body: () => void): void {
    try {
      body();
    } catch (error) {
      this.broken = true;
      this.options.onTrouble?.(`the trace cannot be written (${(error as Error).message}); the run goes on without it`);
    }
  }
}

/** Microseconds since 1970, so that the processes of a resumed run share one clock. */
function now(): number {
  return (performance.timeOrigin + performance.now()) * 1000;
}
