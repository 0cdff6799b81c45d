import { existsSync, mkdtempSync, readFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { tensor } from '@verlet/torch';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { DataProto, loadDataProto } from '../../protocol/index.js';
import { NonFiniteError } from '../../workers/optimizer-step.js';
import { constantRewardShare, GuardMonitor, Guards, repeatedShare, TrainingDivergedError } from './index.js';

const healthy = {
  'guard/constant_reward_groups': 0.3,
  'guard/repetition': 0.05,
  'actor/entropy': 0.5,
  'response_length/mean': 100,
  'response_length/clip_ratio': 0.02,
  'critic/score/mean': 0.5,
  'critic/score/min': 0,
  'critic/score/max': 1,
};

/** Observes `steps` times and returns all that was said. */
function observe(monitor: GuardMonitor, metrics: Record<string, number>, steps: number): string[] {
  return Array.from({ length: steps }, () => monitor.observe(metrics)).flat();
}

describe('measures', () => {
  it('count the groups in which all samples got the same score', () => {
    expect(constantRewardShare(['a', 'a', 'b', 'b', 'c', 'c', 'd'], [1, 1, 0, 1, 0, 0, 5])).toBeCloseTo(2 / 3);
    expect(constantRewardShare(['a', 'b'], [1, 1])).toBeNull();
  });

  it('see loops, not prose', () => {
    expect(repeatedShare(Array.from({ length: 100 }, (_, k) => k % 5))!).toBeGreaterThan(0.9);
    expect(repeatedShare(Array.from({ length: 100 }, (_, k) => k))).toBe(0);
    expect(repeatedShare([1, 1, 1, 1])).toBeNull();
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 9 }), { minLength: 12 }), (tokens) => {
        const share = repeatedShare(tokens)!;
        const grams = tokens.slice(3).map((_, k) => tokens.slice(k, k + 4).join());
        expect(share).toBeCloseTo(1 - new Set(grams).size / grams.length, 9);
        expect(share).toBeGreaterThanOrEqual(0);
        // A text said twice repeats more than half of itself, less the seam.
        expect(repeatedShare([...tokens, ...tokens])!).toBeGreaterThanOrEqual(share - 1e-9);
      }),
    );
  });
});

describe('warnings', () => {
  it('leave a healthy run alone', () => {
    expect(observe(new GuardMonitor(), healthy, 200)).toEqual([]);
  });

  it.each([
    ['constant groups', { 'guard/constant_reward_groups': 0.95 }, /95% of the groups.*filter_groups/],
    ['entropy collapse', { 'actor/entropy': 0.01 }, /entropy is 0.010, 2% of what it was/],
    ['long answers', { 'response_length/mean': 260 }, /260 tokens on average, 2.6 times/],
    ['short answers', { 'response_length/mean': 30 }, /30.0 tokens on average, 30% of what/],
    [
      'cut off answers',
      { 'response_length/clip_ratio': 0.8 },
      /80% of the responses are as long as they may be.*max_response_length/,
    ],
    ['loops', { 'guard/repetition': 0.7 }, /70% of the responses' 4-grams/],
  ])('say %s once, and again only after it had passed', (_, change, message) => {
    const monitor = new GuardMonitor();
    observe(monitor, healthy, 10);
    const sick = { ...healthy, ...change };
    expect(observe(monitor, sick, 50)).toEqual([expect.stringMatching(message)]);
    expect(monitor.active).toBe(1);
    expect(observe(monitor, healthy, 10)).toEqual([]);
    expect(monitor.active).toBe(0);
    expect(observe(monitor, sick, 50)).toHaveLength(1);
  });

  it('do not come for a single odd step', () => {
    const monitor = new GuardMonitor();
    observe(monitor, healthy, 10);
    for (let k = 0; k < 20; k++) {
      expect(monitor.observe({ ...healthy, 'actor/entropy': 0.001 })).toEqual([]);
      observe(monitor, healthy, 1);
    }
  });
});

function batchOf(scores: number[], uids: string[]): DataProto {
  const rows = scores.length;
  return DataProto.fromDict({
    tensors: {
      token_level_scores: tensor(
        scores.flatMap((score) => [0, score]),
        { shape: [rows, 2] },
      ),
      responses: tensor(new Int32Array(rows * 2), { shape: [rows, 2], dtype: 'int64' }),
      response_mask: tensor(new Uint8Array(rows * 2).fill(1), { shape: [rows, 2], dtype: 'int64' }),
    },
    nonTensors: { uid: uids, agent_row: uids.map((uid) => ({ uid, big: 2n ** 60n, score: () => 1 })) },
  });
}

describe('guards of a run', () => {
  it('measure a batch and speak up through the trackers; a resumed run does not repeat what was said', () => {
    const said: string[] = [];
    const batch = batchOf([1, 1, 0, 0], ['a', 'a', 'b', 'b']);
    const history: Record<string, number>[] = [];
    const guards = new Guards({ runFolder: os.tmpdir(), warn: (text) => said.push(text) });
    for (let step = 1; step <= 8; step++) history.push(guards.check(batch, {}, step));
    expect(history[0]).toEqual({ 'guard/constant_reward_groups': 1, 'guard/active_warnings': 0 });
    expect(history[7]).toEqual({ 'guard/constant_reward_groups': 1, 'guard/active_warnings': 1 });
    expect(said).toEqual([expect.stringMatching(/^warning at step 5: in 100% of the groups/)]);
    const resumed = new Guards({ runFolder: os.tmpdir(), warn: (text) => said.push(text) });
    resumed.replay(history);
    for (let step = 9; step <= 12; step++) resumed.check(batch, {}, step);
    expect(said).toHaveLength(1);
    batch.dispose();
  });

  it('keep the batch of an update that is not finite, and say which rows', async () => {
    const runFolder = mkdtempSync(path.join(os.tmpdir(), 'verlet-guards-'));
    const guards = new Guards({ runFolder, warn: () => {} });
    const batch = batchOf([1, Number.NaN, 0, 0], ['a', 'a', 'b', 'b']);
    const failing = guards.update('update_actor', 12, batch, async () => {
      throw new NonFiniteError("the actor's loss is NaN");
    });
    await expect(failing).rejects.toThrow(TrainingDivergedError);
    await expect(failing).rejects.toThrow(
      /step 12, update_actor: the actor's loss is NaN.*failed_batch_step_12.*token_level_scores in rows 1/,
    );
    const folder = path.join(runFolder, 'failed_batch_step_12');
    const kept = loadDataProto(folder);
    expect(kept.column('uid')).toEqual(['a', 'a', 'b', 'b']);
    expect([...kept.tensor('token_level_scores').toFloat32Array()]).toEqual([0, 1, 0, Number.NaN, 0, 0, 0, 0]);
    expect(JSON.parse(readFileSync(path.join(folder, 'reason.json'), 'utf8'))).toEqual({
      step: 12,
      phase: 'update_actor',
      message: "the actor's loss is NaN",
      non_finite_rows: { token_level_scores: [1] },
    });
    kept.dispose();
    batch.dispose();
  });

  it('know the error when it comes from another rank, and leave others as they are', async () => {
    const runFolder = mkdtempSync(path.join(os.tmpdir(), 'verlet-guards-'));
    const guards = new Guards({ runFolder, warn: () => {} });
    const batch = batchOf([1, 0], ['a', 'a']);
    const remote = Object.assign(new Error('rank 1 of 2 failed'), { workerErrorName: 'NonFiniteError' });
    await expect(guards.update('update_critic', 1, batch, () => Promise.reject(remote))).rejects.toThrow(
      /inputs of the batch are finite/,
    );
    const other = new Error('out of memory');
    await expect(guards.update('update_critic', 2, batch, () => Promise.reject(other))).rejects.toBe(other);
    expect(existsSync(path.join(runFolder, 'failed_batch_step_2'))).toBe(false);
    batch.dispose();
  });
});
