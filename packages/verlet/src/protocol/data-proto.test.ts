import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { liveTensors, type Tensor, tensor } from '@verlet/torch';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  DataProto,
  decodeDataProto,
  encodeDataProto,
  loadDataProto,
  padDataProtoToDivisor,
  saveDataProto,
  unpadDataProto,
} from './index.js';

let liveBefore = 0;
beforeEach(() => {
  liveBefore = liveTensors().count;
});
afterEach(() => {
  expect(liveTensors().count).toBe(liveBefore);
});

const values = (data: DataProto) => ({
  tensors: Object.fromEntries([...data.batch].map(([key, value]) => [key, [value.dtype, value.toNested()]])),
  columns: Object.fromEntries(data.nonTensorBatch),
  meta: data.metaInfo,
});

/** Row k is recognisable in every part. */
function make(rows: number, width = 2): DataProto {
  const numbers = Array.from({ length: rows }, (_, row) => Array.from({ length: width }, (_, k) => row * 10 + k));
  const like = (dtype: 'float32' | 'int64') =>
    rows > 0 ? tensor(numbers, { dtype }) : tensor(new Float32Array(0), { shape: [0, width], dtype });
  return DataProto.fromDict({
    tensors: { ids: like('int64'), scores: like('float32') },
    nonTensors: { uid: Array.from({ length: rows }, (_, row) => `u${row}`) },
    metaInfo: { temperature: 0.7 },
  });
}

const rowsOf = (data: DataProto) => data.column<string>('uid').map((uid) => Number(uid.slice(1)));

/** The three parts still tell the same rows. */
function expectRowsIn(data: DataProto, rows: readonly number[]): void {
  expect(rowsOf(data)).toEqual([...rows]);
  const ids = data.tensor('ids').toArray();
  const scores = data.tensor('scores').toArray();
  expect(ids.filter((_, k) => k % 2 === 0)).toEqual(rows.map((row) => row * 10));
  expect(scores.filter((_, k) => k % 2 === 1)).toEqual(rows.map((row) => row * 10 + 1));
}

/** Frees the batches when the body is done. */
function using<T extends DataProto[]>(made: T, body: (...data: T) => void): void {
  try {
    body(...made);
  } finally {
    for (const data of made) data.dispose();
  }
}

const small = fc.integer({ min: 1, max: 12 });

describe('rows', () => {
  it('chunk then concat is the same batch', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 5 }), fc.integer({ min: 1, max: 4 }), (count, size) => {
        const data = make(count * size);
        const parts = data.chunk(count);
        const joined = DataProto.concat(parts);
        try {
          expect(parts.map((part) => part.length)).toEqual(Array(count).fill(size));
          expect(values(joined)).toEqual(values(data));
        } finally {
          for (const made of [data, joined, ...parts]) made.dispose();
        }
      }),
      { numRuns: 30 },
    );
  });

  it('split then concat is the same batch', () => {
    fc.assert(
      fc.property(small, small, (rows, size) => {
        const data = make(rows);
        const parts = data.split(size);
        using([data, DataProto.concat(parts), ...parts], (before, after) => {
          expect(values(after)).toEqual(values(before));
          expect(parts).toHaveLength(Math.ceil(rows / size));
        });
      }),
      { numRuns: 30 },
    );
  });

  it('pads by cycling from row 0, divides, and unpads to the same batch', () => {
    fc.assert(
      fc.property(small, fc.integer({ min: 1, max: 9 }), (rows, divisor) => {
        const data = make(rows);
        const { padded, padSize } = padDataProtoToDivisor(data, divisor);
        using([data, padded, unpadDataProto(padded, padSize)], (before, long, after) => {
          expect(long.length % divisor).toBe(0);
          expect(padSize).toBeLessThan(divisor);
          expect(rowsOf(long)).toEqual(Array.from({ length: rows + padSize }, (_, k) => k % rows));
          expect(values(after)).toEqual(values(before));
        });
      }),
      { numRuns: 30 },
    );
  });

  it('reorder is undone by the inverse order', () => {
    fc.assert(
      fc.property(
        small.chain((rows) => fc.shuffledSubarray([...Array(rows).keys()], { minLength: rows, maxLength: rows })),
        (order) => {
          const inverse = order.map((_, k) => order.indexOf(k));
          using([make(order.length), make(order.length)], (data, original) => {
            data.reorder(order);
            expectRowsIn(data, order);
            data.reorder(inverse);
            expect(values(data)).toEqual(values(original));
          });
        },
      ),
      { numRuns: 30 },
    );
  });

  it('repeats rows aabb or abab, or each its own number of times', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 5 }), fc.integer({ min: 1, max: 3 }), (rows, times) => {
        const data = make(rows);
        const numbers = [...Array(rows).keys()];
        using(
          [data, data.repeat(times), data.repeat(times, false), data.sampleLevelRepeat(numbers)],
          (_, aabb, abab, each) => {
            expectRowsIn(
              aabb,
              numbers.flatMap((row) => Array<number>(times).fill(row)),
            );
            expectRowsIn(abab, Array.from({ length: times }, () => numbers).flat());
            expectRowsIn(
              each,
              numbers.flatMap((row) => Array<number>(row).fill(row)),
            );
          },
        );
      }),
      { numRuns: 20 },
    );
  });

  it('selects by range, numbers and mask as arrays do', () => {
    fc.assert(
      fc.property(
        small,
        fc.integer({ min: -14, max: 14 }),
        fc.integer({ min: -14, max: 14 }),
        fc.integer({ min: 1, max: 3 }),
        fc.array(fc.boolean(), { minLength: 12, maxLength: 12 }),
        (rows, start, end, step, mask) => {
          const data = make(rows);
          const numbers = [...Array(rows).keys()];
          const keep = mask.slice(0, rows);
          using([data, data.slice(start, end, step), data.selectIdxs(keep)], (_, range, masked) => {
            expectRowsIn(
              range,
              numbers.slice(start, end).filter((_, k) => k % step === 0),
            );
            expectRowsIn(
              masked,
              numbers.filter((row) => keep[row]),
            );
          });
        },
      ),
      { numRuns: 40 },
    );
  });

  it('folds rows into groups and back', () => {
    const data = make(6);
    const folded = data.foldBatchDim(2);
    using([data, folded, folded.unfoldBatchDim()], (before, groups, after) => {
      expect(groups.tensor('ids').shape).toEqual([2, 3, 2]);
      expect(groups.column('uid')).toEqual([
        ['u0', 'u1', 'u2'],
        ['u3', 'u4', 'u5'],
      ]);
      expect(values(after)).toEqual(values(before));
    });
  });

  it('cuts columns into rows and repeats the rest', () => {
    using([make(2, 4)], (data) => {
      const cut = data.unfoldColumnChunks(2, ['ids']);
      expect(cut.tensor('ids').toNested()).toEqual([
        [0, 1],
        [2, 3],
        [10, 11],
        [12, 13],
      ]);
      expect(cut.tensor('scores').shape).toEqual([4, 4]);
      expect(cut.column('uid')).toEqual(['u0', 'u0', 'u1', 'u1']);
      cut.dispose();
      expect(() => data.unfoldColumnChunks(3, ['ids'])).toThrow(/'ids' does not divide into 3/);
    });
  });

  it('iterates over mini-batches, each row once per epoch, the seed fixing the order', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 4 }), fc.integer({ min: 1, max: 4 }), fc.nat(), (count, size, seed) => {
        const data = make(count * size);
        const run = () =>
          [...data.miniBatches(size, { epochs: 2, seed })].map((part) => {
            const rows = rowsOf(part);
            part.dispose();
            return rows;
          });
        const first = run();
        expect(run()).toEqual(first);
        const sorted = [...Array(count * size).keys()];
        expect(
          first
            .slice(0, count)
            .flat()
            .sort((a, b) => a - b),
        ).toEqual(sorted);
        expect(
          first
            .slice(count)
            .flat()
            .sort((a, b) => a - b),
        ).toEqual(sorted);
        data.dispose();
      }),
      { numRuns: 20 },
    );
    const data = make(64);
    const orders = [...data.miniBatches(64, { epochs: 2, seed: 1 })].map((part) => {
      const rows = rowsOf(part);
      part.dispose();
      return rows.join();
    });
    expect(orders[0]).not.toBe(orders[1]);
    expect(() => [...data.miniBatches(7)]).toThrow(/64 rows do not divide into mini-batches of 7/);
    data.dispose();
  });
});

describe('keys', () => {
  it('pop then union is the same batch', () => {
    fc.assert(
      fc.property(fc.subarray(['ids', 'scores']), fc.subarray(['uid']), (batchKeys, nonTensorBatchKeys) => {
        using([make(3), make(3)], (data, original) => {
          const popped = data.pop({ batchKeys, nonTensorBatchKeys, metaInfoKeys: ['temperature'] });
          for (const key of batchKeys) expect(data.has(key)).toBe(false);
          expect('temperature' in data.metaInfo).toBe(false);
          data.union(popped);
          expect(values(data)).toEqual(values(original));
          expect(popped.batch.size).toBe(0);
        });
      }),
    );
  });

  it('union takes equal values twice, NaN included, and refuses different ones without changing anything', () => {
    const nan = () =>
      DataProto.fromDict({ tensors: { x: tensor([Number.NaN, 1]) }, nonTensors: { o: [{ a: [1] }, null] } });
    const same = nan().union(nan());
    expect(same.tensor('x').toArray()).toEqual([Number.NaN, 1]);
    const other = DataProto.fromDict({ tensors: { x: tensor([0, 2]), y: tensor([1, 1]) } });
    expect(() => same.union(other)).toThrow(/tensor 'x' differs/);
    expect(same.has('y')).toBe(false);
    expect(other.batch.size).toBe(2);
    const column = DataProto.fromDict({ nonTensors: { o: [{ a: [2] }, null] } });
    expect(() => same.union(column)).toThrow(/column 'o' differs/);
    const meta = DataProto.fromDict({ metaInfo: { step: 1 } });
    same.metaInfo.step = 2;
    expect(() => same.union(meta)).toThrow(/meta info 'step' differs/);
    using([make(3)], (three) => expect(() => same.union(three)).toThrow(/union of 2 and 3 rows/));
    same.dispose();
    other.dispose();
  });

  it('a failed pop or rename loses nothing', () => {
    using([make(2)], (data) => {
      expect(() => data.pop({ batchKeys: ['ids', 'wrong'] })).toThrow(/no tensor 'wrong'; it has: ids, scores/);
      expect(() => data.pop({ batchKeys: ['ids'], metaInfoKeys: ['none'] })).toThrow(/no meta info 'none'/);
      expect(() => data.rename('ids', 'scores')).toThrow(/'scores' already/);
      expect(() => data.rename(['ids', 'scores'], ['a', 'a'])).toThrow(/'a' already/);
      expect([...data.batch.keys()]).toEqual(['ids', 'scores']);
      data.rename(['ids', 'scores'], ['scores', 'ids']);
      expect(data.tensor('ids').dtype).toBe('float32');
    });
  });

  it('shares memory in slices and copies in selections', () => {
    const data = make(4);
    using(
      [data, data.slice(1, 2), data.selectIdxs([1]), data.select({ batchKeys: ['ids'] })],
      (all, view, copy, named) => {
        all.tensor('ids').fill_(7);
        expect(view.tensor('ids').toNested()).toEqual([[7, 7]]);
        expect(copy.tensor('ids').toNested()).toEqual([[10, 11]]);
        expect(named.tensor('ids').toArray()).toEqual(Array(8).fill(7));
        expect([...named.batch.keys()]).toEqual(['ids']);
      },
    );
  });

  it('joins metrics of parts as lists and refuses other differences', () => {
    const part = (metrics: unknown, extra = {}) => DataProto.fromDict({ metaInfo: { metrics, ...extra } });
    const joined = DataProto.concat([part({ a: 1, b: [2, 3] }), part({ a: 4 }), DataProto.fromDict({})]);
    expect(joined.metaInfo).toEqual({ metrics: { a: [1, 4], b: [2, 3] } });
    expect(() => DataProto.concat([part({}, { t: 1 }), part({}, { t: 2 })])).toThrow(/meta info 't' differs/);
    using([make(1), DataProto.fromDict({ nonTensors: { uid: ['u0'] } })], (a, b) =>
      expect(() => DataProto.concat([a, b])).toThrow(/different keys: ids, scores, uid and uid/),
    );
  });

  it('says what does not fit', () => {
    const two = tensor([1, 2]);
    const three = tensor([1, 2, 3]);
    expect(() => DataProto.fromDict({ tensors: { two, three } })).toThrow(/'three' has 3 rows, the batch has 2/);
    expect(() => DataProto.fromDict({ tensors: { two }, nonTensors: { a: ['x'] } })).toThrow(/'a' has 1 entries/);
    two.dispose();
    three.dispose();
    using([make(3)], (data) => {
      expect(() => data.tensor('nope')).toThrow(/no tensor 'nope'/);
      expect(() => data.column('nope')).toThrow(/no column 'nope'; it has: uid/);
      expect(() => data.chunk(2)).toThrow(/3 rows do not divide into 2/);
      expect(() => data.selectIdxs([3])).toThrow(/row 3 of a batch of 3/);
      expect(() => data.selectIdxs([true])).toThrow(/mask of 1 for 3/);
      expect(() => data.reorder([0, 0, 1])).toThrow(/each of 3 rows once/);
      expect(() => data.item(5)).toThrow(/row 5/);
      expect(() => data.foldBatchDim(2)).toThrow(/do not fold/);
      expect(() => padDataProtoToDivisor(new DataProto(), 2)).toThrow(/empty/);
      expect(data.printSize('batch')).toContain('batch: 3 rows, 0.00 MiB; ids int64[3, 2]; scores float32[3, 2]; uid');
    });
  });
});

describe('encoding', () => {
  const every = (): Record<string, Tensor> => ({
    bfloat16: tensor([[1.5], [-2]], { dtype: 'bfloat16' }),
    float16: tensor([[0.25], [3]], { dtype: 'float16' }),
    float64: tensor([[0.1], [Number.NaN]], { dtype: 'float64' }),
    int64: tensor(new BigInt64Array([2n ** 60n, -1n])),
    bool: tensor([true, false], { dtype: 'bool' }),
    uint8: tensor(new Uint8Array([255, 0])),
    empty: tensor(new Float32Array(0), { shape: [2, 0, 3] }),
  });

  it('brings every dtype, objects and meta back', () => {
    const data = DataProto.fromDict({ tensors: every(), nonTensors: { o: [{ a: 1 }, 'x'] }, metaInfo: { k: [1] } });
    using([data, decodeDataProto(encodeDataProto(data))], (before, after) => {
      expect(values(after)).toEqual(values(before));
      expect(after.tensor('int64').toBigInt64Array()).toEqual(new BigInt64Array([2n ** 60n, -1n]));
    });
  });

  it('encodes views by their own rows', () => {
    const data = make(4);
    const view = data.slice(1, 4, 2);
    using([data, view, decodeDataProto(encodeDataProto(view))], (_, __, after) => expectRowsIn(after, [1, 3]));
  });

  it('saves to and loads from a folder, and names a broken one', () => {
    const folder = mkdtempSync(path.join(tmpdir(), 'verlet-batch-'));
    try {
      const data = DataProto.fromDict({ tensors: every(), nonTensors: { o: [{ a: 1 }, null] }, metaInfo: { k: 1 } });
      saveDataProto(data, folder);
      using([data, loadDataProto(folder)], (before, after) => expect(values(after)).toEqual(values(before)));
      using([DataProto.fromDict({ nonTensors: { f: [() => 1] } })], (bad) =>
        expect(() => saveDataProto(bad, folder)).toThrow(/Function, which JSON cannot keep/),
      );
      writeFileSync(path.join(folder, 'batch.json'), '{');
      expect(() => loadDataProto(folder)).toThrow(/batch\.json cannot be read/);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});
