import { Worker } from 'node:worker_threads';
import { describe, expect, it } from 'vitest';
import { liveTensors, ones, scope } from '../../src/index.js';

interface Outcome {
  loss: number;
  learned: number[];
  refused: string;
  live: number;
  grad: boolean;
}

function start(index: number, rounds: number): { worker: Worker; outcome: Promise<Outcome> } {
  const worker = new Worker(new URL('./worker.mjs', import.meta.url), { workerData: { index, rounds } });
  const outcome = new Promise<Outcome>((resolve, reject) => {
    worker.once('message', resolve);
    worker.once('error', reject);
    worker.once('exit', (code) => reject(new Error(`worker ${index} ended with ${code}`)));
  });
  return { worker, outcome };
}

describe('worker threads', () => {
  it('several at once learn on their own, with their own handles and errors', async () => {
    const held = ones([3]);
    const outcomes = await Promise.all([1, 2, 3, 4].map((index) => start(index, 150).outcome));
    outcomes.forEach(({ learned, loss, refused, live, grad }, k) => {
      expect(learned[0]).toBeCloseTo(k + 1, 1);
      expect(learned[1]).toBeCloseTo(-(k + 1), 1);
      expect(loss).toBeLessThan(0.1);
      expect(refused).toMatch(/^TorchError: aten::add/);
      expect(live).toBe(0);
      expect(grad).toBe(false);
    });
    expect(held.toArray()).toEqual([1, 1, 1]);
    held.dispose();
    expect(liveTensors().count).toBe(0);
  });

  it('can be ended in the middle of their work', async () => {
    for (let k = 0; k < 3; k++) {
      const { worker, outcome } = start(k, 1_000_000);
      outcome.catch(() => undefined);
      await new Promise((resolve) => worker.once('online', resolve));
      await new Promise((resolve) => setTimeout(resolve, 300));
      expect(await worker.terminate()).toBe(1);
    }
    expect(scope(() => ones([3]).sum().item())).toBe(3);
  });
});
