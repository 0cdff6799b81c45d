import { liveTensors, ProcessGroup, TcpStore, type Tensor, tensor, zeros } from '@verlet/torch';
import fc from 'fast-check';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { buckets, rankContext } from './rank-context.js';

let store: TcpStore;
let group: ProcessGroup;
beforeAll(async () => {
  store = await TcpStore.open({ host: '127.0.0.1', port: 0, isServer: true, timeoutMs: 10_000 });
  group = await ProcessGroup.open(store, { rank: 0, worldSize: 1, host: '127.0.0.1', timeoutMs: 10_000 });
});
afterAll(async () => {
  await group.close();
  await store.close();
});

it('puts neighbours of one type into buckets that are not too large, in order', () => {
  const kind = fc.record({ size: fc.integer({ min: 0, max: 9 }), dtype: fc.constantFrom('float32', 'float64') });
  fc.assert(
    fc.property(fc.array(kind, { maxLength: 12 }), fc.integer({ min: 1, max: 64 }), (kinds, limit) => {
      const tensors = kinds.map(({ size, dtype }) => zeros([size], { dtype: dtype as 'float32' }));
      const made = [...buckets(tensors, limit)];
      expect(made.flat()).toEqual(tensors);
      for (const bucket of made) {
        expect(new Set(bucket.map((value) => value.dtype)).size).toBe(1);
        const bytes = bucket.reduce((sum, value) => sum + value.nbytes, 0);
        expect(bucket.length === 1 || bytes <= limit).toBe(true);
      }
      for (const value of tensors) value.dispose();
    }),
    { numRuns: 50 },
  );
});

it('reduces in place whatever the shape, says when it waits, and leaks nothing', () => {
  const before = liveTensors().count;
  const waiting: boolean[] = [];
  const context = rankContext(group, { device: 'cpu', onWaiting: (now) => waiting.push(now) });
  const base = tensor([
    [1, 2],
    [3, 4],
  ]);
  const values: Tensor[] = [base.t(), tensor([5]), tensor([6], { dtype: 'float64' }), tensor([[7]])];
  context.allReduce(values);
  expect(values.map((value) => value.toArray())).toEqual([[1, 3, 2, 4], [5], [6], [7]]);
  expect(base.toArray()).toEqual([1, 2, 3, 4]);
  expect(context.sum(0.1)).toBe(0.1);
  // Three buckets and one number; on and off each time.
  expect(waiting).toEqual(Array.from({ length: 8 }, (_, k) => k % 2 === 0));
  for (const value of [base, ...values]) value.dispose();
  expect(liveTensors().count).toBe(before);
});
