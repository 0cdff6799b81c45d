import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  ConcatSource,
  CurriculumSampler,
  DataLoader,
  type LoaderState,
  MixingSampler,
  permutation,
  type Sampler,
} from './index.js';

const source = (length: number) => ({
  length,
  items: async (indices: ArrayLike<number>) => Array.from(indices, (index) => ({ index })),
});

type Batches = number[][];
async function take(loader: DataLoader<{ index: number }>, count: number): Promise<Batches> {
  const batches: Batches = [];
  for (let i = 0; i < count; i++) batches.push((await loader.next()).map(({ index }) => index));
  return batches;
}

const samplers: Record<string, (length: number, seed: number) => Sampler | undefined> = {
  shuffled: () => undefined,
  mixed: (length, seed) => {
    const first = Math.ceil(length / 3);
    return new MixingSampler([first, length - first], length > first ? [3, 1] : [1, 0], seed);
  },
  curriculum: (length) =>
    new CurriculumSampler(length, ({ epoch, length, scores }) => {
      const order = [...permutation(length, 5, epoch)];
      return order.sort((a, b) => (scores.get(a) ?? 0) - (scores.get(b) ?? 0));
    }),
};

describe('DataLoader', () => {
  it.each(Object.keys(samplers))('continues exactly where it was saved (%s)', async (kind) => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 40 }),
        fc.integer({ min: 1, max: 40 }),
        fc.integer({ min: 0, max: 30 }),
        fc.integer({ min: 0, max: 2 ** 31 }),
        fc.boolean(),
        async (length, size, before, seed, dropLast) => {
          const batchSize = Math.min(size, length);
          const make = () =>
            new DataLoader(source(length), {
              batchSize,
              seed,
              shuffle: true,
              dropLast,
              sampler: samplers[kind]?.(length, seed),
            });
          const feedback = (batches: Batches) => batches.flat().map((index) => ({ index, score: (index * 7) % 5 }));
          const original = make();
          original.update(feedback(await take(original, before)));
          const saved = JSON.parse(JSON.stringify(original.state())) as LoaderState;
          const resumed = make();
          resumed.restore(saved);
          expect(await take(resumed, 12)).toEqual(await take(original, 12));
          expect(resumed.state()).toEqual(original.state());
        },
      ),
      { numRuns: 100 },
    );
  });

  it('shows every item once per epoch, in another order each time', async () => {
    const loader = new DataLoader(source(10), { batchSize: 4, shuffle: true, seed: 3 });
    const epochs: Batches[] = [];
    for (let epoch = 0; epoch < 2; epoch++) {
      const batches: Batches = [];
      for await (const batch of loader.epoch()) batches.push(batch.map(({ index }) => index));
      epochs.push(batches);
    }
    for (const batches of epochs) {
      expect(batches.map((batch) => batch.length)).toEqual([4, 4, 2]);
      expect(batches.flat().sort((a, b) => a - b)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    }
    expect(epochs[0]).not.toEqual(epochs[1]);
    expect(loader.epochIndex).toBe(2);
  });

  it('drops the rest when asked to', async () => {
    const loader = new DataLoader(source(10), { batchSize: 4, dropLast: true });
    expect(loader.batchesPerEpoch).toBe(2);
    expect(await take(loader, 3)).toEqual([
      [0, 1, 2, 3],
      [4, 5, 6, 7],
      [0, 1, 2, 3],
    ]);
  });

  it('refuses what cannot work', () => {
    expect(() => new DataLoader(source(3), { batchSize: 4, dropLast: true })).toThrow('fewer than one batch of 4');
    expect(() => new DataLoader(source(0), { batchSize: 4 })).toThrow('empty');
    const loader = new DataLoader(source(10), { batchSize: 4 });
    expect(() => loader.restore({ ...loader.state(), length: 11 })).toThrow(
      '11 items in batches of 4, now there are 10',
    );
  });
});

describe('MixingSampler', () => {
  it('draws by weight and goes round small sources', () => {
    const sampler = new MixingSampler([10, 1000], [1, 1], 9);
    const draws = Array.from({ length: 2000 }, () => sampler.next());
    const small = draws.filter((index) => index < 10);
    expect(small.length).toBeGreaterThan(900);
    expect(small.length).toBeLessThan(1100);
    expect([...small.slice(0, 10)].sort((a, b) => a - b)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    const large = draws.filter((index) => index >= 10).slice(0, 900);
    expect(new Set(large).size).toBe(900);
  });

  it('refuses weights that do not fit', () => {
    expect(() => new MixingSampler([1, 2], [1], 0)).toThrow('as many weights');
    expect(() => new MixingSampler([1, 0], [1, 1], 0)).toThrow('source 1 is empty');
  });

  it('numbers the items of all sources through', async () => {
    const joined = new ConcatSource([source(2), source(3)]);
    expect((await joined.items([4, 0, 2])).map(({ index }) => index)).toEqual([4, 0, 2]);
  });
});

describe('permutation', () => {
  it('is uniform enough that every item reaches every place', () => {
    const counts = Array.from({ length: 5 }, () => new Array<number>(5).fill(0));
    for (let seed = 0; seed < 5000; seed++) {
      permutation(5, seed, 0).forEach((item, place) => {
        (counts[place] as number[])[item] = ((counts[place] as number[])[item] as number) + 1;
      });
    }
    for (const count of counts.flat()) expect(Math.abs(count - 1000)).toBeLessThan(150);
  });
});
