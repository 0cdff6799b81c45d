import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { StepTimer } from '../step-timer.js';
import { type TraceEvent, TraceFile, TraceRecorder, traceCalls } from './index.js';

const folder = (): string => mkdtempSync(path.join(os.tmpdir(), 'verlet-trace-'));
const read = (file: string): TraceEvent[] => JSON.parse(readFileSync(file, 'utf8')) as TraceEvent[];
const spans = (events: TraceEvent[]): TraceEvent[] => events.filter((event) => event.ph === 'X');

async function step(trace: TraceRecorder, number: number): Promise<void> {
  const onCall = traceCalls(trace);
  const timer = new StepTimer(trace);
  const generate = async (): Promise<void> => {
    const ends = [0, 1].map((rank) => onCall(rank, 'actor', 'generateSequences'));
    await new Promise((resolve) => setTimeout(resolve, 1));
    for (const end of ends) end();
  };
  await timer.time('step', () => timer.time('gen', generate));
  trace.counter('score', number);
  trace.endStep(number);
}

describe('traces', () => {
  it('hold phases and worker calls of the whole run, each on its lane, nested in time', async () => {
    const file = path.join(folder(), 'deep', 'timeline.json');
    const trace = new TraceRecorder({ timelineFile: file });
    trace.start(0);
    for (let number = 1; number <= 3; number++) await step(trace, number);
    trace.close();
    const events = read(file);
    const lanes = Object.fromEntries(
      events.filter((event) => event.name === 'thread_name').map((event) => [event.args!.name as string, event.tid]),
    );
    expect(Object.keys(lanes).sort()).toEqual(['actor rank 0', 'actor rank 1', 'phases']);
    expect(spans(events).map((event) => event.name)).toEqual(
      Array.from({ length: 3 }, () => ['generateSequences', 'generateSequences', 'gen', 'step']).flat(),
    );
    const [call, , gen, whole] = spans(events) as [TraceEvent, TraceEvent, TraceEvent, TraceEvent];
    expect([call.tid, gen.tid]).toEqual([lanes['actor rank 0'], lanes.phases]);
    expect(gen.ts!).toBeGreaterThanOrEqual(whole.ts!);
    expect(gen.ts! + gen.dur!).toBeLessThanOrEqual(whole.ts! + whole.dur!);
  });

  it('mark phases, and phases alone, for another profiler, well nested', async () => {
    const marks: string[] = [];
    const mark = (name: string) => {
      marks.push(`<${name}>`);
      return () => void marks.push(`</${name}>`);
    };
    const trace = new TraceRecorder({ steps: [1], stepsFolder: folder(), mark });
    await step(trace, 1);
    expect(marks.join('')).toBe('<step><gen></gen></step>');
  });

  it('write the chosen steps, neighbours together when asked', async () => {
    for (const [joinNeighbours, files] of [
      [false, ['step_2.trace.json', 'step_3.trace.json', 'step_5.trace.json']],
      [true, ['step_2.trace.json', 'step_5.trace.json']],
    ] as const) {
      const stepsFolder = folder();
      const trace = new TraceRecorder({ steps: [2, 3, 5], stepsFolder, joinNeighbours });
      trace.start(0);
      for (let number = 1; number <= 6; number++) await step(trace, number);
      trace.close();
      expect(readdirSync(stepsFolder).sort()).toEqual(files);
      expect(spans(read(path.join(stepsFolder, 'step_2.trace.json')))).toHaveLength(joinNeighbours ? 8 : 4);
    }
  });

  it('go on in the same file after a kill and after a clean end', async () => {
    const file = path.join(folder(), 'timeline.json');
    const first = new TraceRecorder({ timelineFile: file });
    first.start(0);
    await step(first, 1);
    // Killed while writing.
    writeFileSync(file, `${readFileSync(file, 'utf8')},\n{"name":"ha`);
    for (let process = 2; process <= 3; process++) {
      const next = new TraceRecorder({ timelineFile: file });
      next.start(process - 1);
      await step(next, process);
      next.close();
    }
    const steps = spans(read(file)).filter((event) => event.name === 'step');
    expect(steps.map((event) => event.pid)).toEqual([1, 2, 3]);
    // Every span lies on a lane that its own process named.
    const named = read(file).filter((event) => event.name === 'thread_name');
    for (const { pid, tid } of spans(read(file))) expect(named).toContainEqual(expect.objectContaining({ pid, tid }));
    const empty = path.join(folder(), 'empty.json');
    new TraceFile(empty).close();
    const again = new TraceFile(empty, { append: true });
    again.add([{ name: 'x', ph: 'C', pid: 1, tid: 0 }]);
    again.close();
    expect(read(empty)).toHaveLength(1);
  });

  it('cost nothing when nobody asked for them', async () => {
    const trace = new TraceRecorder({});
    trace.start(0);
    await step(trace, 1);
    trace.close();
    expect(trace.isOn).toBe(false);
  });

  it('stop with a word when the disk does not take them', async () => {
    const home = folder();
    writeFileSync(path.join(home, 'file'), '');
    const said: string[] = [];
    const trace = new TraceRecorder({
      timelineFile: path.join(home, 'file', 't.json'),
      onTrouble: (text) => said.push(text),
    });
    trace.start(0);
    await step(trace, 1);
    trace.close();
    expect(said).toEqual([expect.stringMatching(/trace cannot be written/)]);
  });
});
