import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { crc32c } from './crc32c.js';
import { TensorboardTracker } from './index.js';

const python = process.env.VERLET_PYTHON ?? 'python3';
const hasTensorboard = spawnSync(python, ['-c', 'import tensorboard']).status === 0;

/** What TensorBoard itself reads from a folder. */
function readBack(folder: string): { scalars: Record<string, [number, number][]>; text: [number, string][] } {
  const script = `
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0, "tensors": 0}); events.Reload()
print(json.dumps({
  "scalars": {tag: [[e.step, e.value] for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]},
  "text": [[e.step, e.tensor_proto.string_val[0].decode()] for tag in events.Tags()["tensors"] for e in events.Tensors(tag)],
}))`;
  return JSON.parse(
    execFileSync(python, ['-c', script, folder], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }),
  );
}

describe('TensorBoard files', () => {
  it('have the checksum of RFC 3720', () => {
    expect(crc32c(new Uint8Array(32))).toBe(0x8a9136aa);
    expect(crc32c(Buffer.from('123456789'))).toBe(0xe3069283);
  });

  it('are read by TensorBoard, and a resumed run has every step once', (context) => {
    if (!hasTensorboard) context.skip(`${python} cannot import tensorboard, so its reader cannot judge our files`);
    const folder = mkdtempSync(path.join(os.tmpdir(), 'verlet-tensorboard-'));
    const first = new TensorboardTracker(folder);
    first.start(0);
    for (let step = 0; step <= 7; step++)
      first.log({ 'critic/score/mean': step / 8, 'val-core/a/acc/mean@1': 0.5 }, step);
    first.generations([{ prompt: 'Wie viel?', response: 'zwölf €', score: 1, dataSource: 'a', groundTruth: 12 }], 4);
    const second = new TensorboardTracker(folder);
    second.start(5);
    for (let step = 6; step <= 9; step++) second.log({ 'critic/score/mean': step, 'val-core/a/acc/mean@1': 0.5 }, step);
    expect(readdirSync(folder)).toHaveLength(2);
    const { scalars, text } = readBack(folder);
    expect(scalars['critic/score/mean']).toEqual([
      ...[0, 1, 2, 3, 4, 5].map((step) => [step, step / 8]),
      ...[6, 7, 8, 9].map((step) => [step, step]),
    ]);
    expect(scalars['val-core/a/acc/mean@1']).toHaveLength(10);
    expect(text).toEqual([[4, expect.stringContaining('zwölf €')]]);
    const anew = new TensorboardTracker(folder);
    anew.start(0);
    anew.log({ 'critic/score/mean': -1 }, 1);
    expect(readBack(folder).scalars['critic/score/mean']).toEqual([[1, -1]]);
  });
});
