import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { missingPython, runPython } from '../../test/python.js';
import {
  arange,
  type DType,
  liveTensors,
  randn,
  SafetensorsError,
  scope,
  type Tensor,
  tensor,
  zeros,
} from '../index.js';
import { openSafetensors, saveSafetensors } from './index.js';

const dtypes: DType[] = [
  'float64',
  'float32',
  'float16',
  'bfloat16',
  'int64',
  'int32',
  'int16',
  'int8',
  'uint8',
  'bool',
];
let folder = '';
const at = (name: string) => path.join(folder, name);

beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'verlet-safetensors-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** A file with any header, true or not, and so many bytes of data. */
function writeRaw(name: string, header: string, dataBytes: number): string {
  const json = Buffer.from(header);
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(json.length));
  writeFileSync(at(name), Buffer.concat([length, json, Buffer.alloc(dataBytes, 1)]));
  return at(name);
}

describe('safetensors', () => {
  it('gives back every dtype, shape and the metadata', () => {
    scope(() => {
      const entries = new Map(
        dtypes.map((dtype) => [
          `a.${dtype}`,
          tensor(
            [
              [0, 1, 2],
              [3, 4, 1],
            ],
            { dtype },
          ),
        ]),
      );
      entries.set('scalar', tensor(7));
      entries.set('nothing', zeros([0, 3]));
      entries.set(
        'transposed',
        tensor([
          [1, 2],
          [3, 4],
        ]).t(),
      );
      saveSafetensors(at('a.safetensors'), entries, { metadata: { step: '12', ключ: 'é' } });
      const file = openSafetensors(at('a.safetensors'));
      expect(file.metadata).toEqual({ format: 'pt', step: '12', ключ: 'é' });
      expect(new Set(file.names())).toEqual(new Set(entries.keys()));
      for (const [name, value] of entries) {
        const read = file.tensor(name);
        expect([name, read.dtype, read.shape]).toEqual([name, value.dtype, value.shape]);
        expect(read.equal(value)).toBe(true);
      }
    });
    expect(liveTensors().count).toBe(0);
    expect(readdirSync(folder)).toEqual(['a.safetensors']);
  });

  it('maps instead of copying: written tensors never change the file, and live on after close', () => {
    scope(() => {
      saveSafetensors(at('a.safetensors'), [['x', arange(0, 1000)]]);
      const before = readFileSync(at('a.safetensors'));
      const file = openSafetensors(at('a.safetensors'));
      const first = file.tensor('x');
      const second = file.tensor('x');
      first.fill_(5);
      expect(second.select(0, 0).item()).toBe(5);
      file.close();
      expect(first.sum().item()).toBe(5000);
      expect(() => file.tensor('x')).toThrow(/was closed/);
      expect(readFileSync(at('a.safetensors')).equals(before)).toBe(true);
    });
  });

  it('splits large models into shards with an index, and a later single file replaces them', () => {
    scope(() => {
      const entries: [string, Tensor][] = Array.from({ length: 7 }, (_, k) => [
        `layer.${k}`,
        tensor(Array(100).fill(k)),
      ]);
      const saved = saveSafetensors(at('model.safetensors'), entries, { maxShardBytes: 900 });
      expect(saved.totalBytes).toBe(2800);
      expect(readdirSync(folder).sort()).toEqual([
        'model-00001-of-00004.safetensors',
        'model-00002-of-00004.safetensors',
        'model-00003-of-00004.safetensors',
        'model-00004-of-00004.safetensors',
        'model.safetensors.index.json',
      ]);
      const sharded = openSafetensors(folder);
      expect(sharded.files).toHaveLength(4);
      for (const [name, value] of entries) expect(sharded.tensor(name).equal(value)).toBe(true);
      saveSafetensors(at('model.safetensors'), entries);
      expect(readdirSync(folder)).toEqual(['model.safetensors']);
      expect(openSafetensors(folder).names()).toHaveLength(7);
    });
  });

  it('makes lazy tensors one at a time, and checks what they promised', () => {
    let most = 0;
    const lazy = (fill: number) => ({
      dtype: 'float32' as const,
      shape: [10],
      load: () => {
        most = Math.max(most, liveTensors().count);
        return tensor(Array(10).fill(fill));
      },
    });
    saveSafetensors(at('a.safetensors'), [
      ['a', lazy(1)],
      ['b', lazy(2)],
      ['c', lazy(3)],
    ]);
    expect(most).toBe(0);
    expect(liveTensors().count).toBe(0);
    expect(scope(() => openSafetensors(at('a.safetensors')).tensor('b').sum().item())).toBe(20);
    const liar = { dtype: 'float32' as const, shape: [11], load: () => zeros([10]) };
    expect(() => saveSafetensors(at('a.safetensors'), [['a', liar]])).toThrow(/announced as float32 \[11\]/);
  });

  it('writes tensors larger than a piece, and views of them, in pieces', () => {
    scope(() => {
      // 72 MiB: a piece is 64.
      const large = arange(0, 9 * 2 ** 20 + 5);
      const view = large.slice(0, 3, null, 2);
      saveSafetensors(at('large.safetensors'), [
        ['small', tensor([1, 2, 3], { dtype: 'uint8' })],
        ['large', large],
        ['view', view],
      ]);
      const file = openSafetensors(at('large.safetensors'));
      expect(file.tensor('large').equal(large)).toBe(true);
      expect(file.tensor('view').equal(view)).toBe(true);
      expect(file.tensor('small').toArray()).toEqual([1, 2, 3]);
    });
  });

  it('leaves the old file alone when writing fails', () => {
    scope(() => {
      saveSafetensors(at('a.safetensors'), [['x', tensor([1, 2])]]);
      const broken = {
        dtype: 'float32' as const,
        shape: [2],
        load: (): Tensor => {
          throw new Error('gather failed');
        },
      };
      expect(() => saveSafetensors(at('a.safetensors'), [['y', broken]])).toThrow('gather failed');
      expect(openSafetensors(at('a.safetensors')).tensor('x').toArray()).toEqual([1, 2]);
      expect(readdirSync(folder)).toEqual(['a.safetensors']);
      expect(() =>
        saveSafetensors(at('a.safetensors'), [
          ['x', tensor(1)],
          ['x', tensor(2)],
        ]),
      ).toThrow(/two tensors are named 'x'/);
    });
  });
});

describe('a file that lies', () => {
  const entry = (begin: number, end: number, shape: number[] = [(end - begin) / 4], dtype = 'F32') =>
    JSON.stringify({ dtype, shape, data_offsets: [begin, end] });
  const cases: [string, string, number, RegExp][] = [
    ['overlap', `{"a":${entry(0, 8)},"b":${entry(4, 12)}}`, 12, /'a' and 'b' overlap by 4/],
    ['gap', `{"a":${entry(0, 8)},"b":${entry(12, 16)}}`, 16, /gap of 4 bytes between a and tensor 'b'/],
    ['data behind the last tensor', `{"a":${entry(0, 8)}}`, 9, /1 bytes behind the last tensor/],
    ['offsets beyond the end', `{"a":${entry(0, 800)}}`, 8, /claims bytes 0 to 800, but the file holds 8/],
    ['offsets in reverse', `{"a":${entry(8, 4, [1])}}`, 8, /claims bytes 8 to 4/],
    ['shape against offsets', `{"a":${entry(0, 8, [3])}}`, 8, /needs 12 bytes, its data_offsets give it 8/],
    ['a shape that overflows', `{"a":${entry(0, 8, [2 ** 40, 2 ** 40])}}`, 8, /data_offsets give it 8/],
    ['negative sizes', `{"a":${entry(0, 8, [-1, -2])}}`, 8, /no usable shape/],
    ['fractional offsets', '{"a":{"dtype":"F32","shape":[2],"data_offsets":[0.5,8]}}', 8, /no usable data_offsets/],
    ['an unknown dtype', `{"a":${entry(0, 8, [2], 'F31')}}`, 8, /unknown dtype "F31"/],
    ['a prototype name as dtype', `{"a":${entry(0, 8, [2], 'toString')}}`, 8, /unknown dtype/],
    ['a name twice', `{"a":${entry(0, 8)},"\\u0061":${entry(0, 8)}}`, 8, /names 'a' twice/],
    ['metadata that is no text', `{"__metadata__":{"a":1}}`, 0, /__metadata__.a is not a string/],
    ['an array', '[]', 0, /not a JSON object/],
    ['null', 'null', 0, /not a JSON object/],
    ['no JSON', '{"a":', 0, /not JSON/],
    ['no header at all', '', 0, /not JSON/],
  ];
  for (const [what, header, bytes, message] of cases) {
    it(`gives a clear error: ${what}`, () => {
      expect(() => openSafetensors(writeRaw('a.safetensors', header, bytes))).toThrow(SafetensorsError);
      expect(() => openSafetensors(at('a.safetensors'))).toThrow(message);
      expect(() => openSafetensors(at('a.safetensors'))).toThrow(folder);
    });
  }

  it('refuses headers longer than the format allows or than the file', () => {
    const head = Buffer.alloc(16);
    head.writeBigUInt64LE(2n ** 63n);
    writeFileSync(at('a.safetensors'), head);
    expect(() => openSafetensors(at('a.safetensors'))).toThrow(/the format allows 100000000/);
    head.writeBigUInt64LE(9n);
    writeFileSync(at('a.safetensors'), head);
    expect(() => openSafetensors(at('a.safetensors'))).toThrow(/cut off/);
    writeFileSync(at('a.safetensors'), 'abc');
    expect(() => openSafetensors(at('a.safetensors'))).toThrow(/3 bytes/);
    expect(() => openSafetensors(at('none'))).toThrow(/no such file/);
    expect(() => openSafetensors(mkdtempSync(at('empty-')))).toThrow(SafetensorsError);
  });

  it('refuses an index that reaches outside, misses a shard or misplaces a tensor', () => {
    const index = (weightMap: Record<string, string>) =>
      writeFileSync(at('model.safetensors.index.json'), JSON.stringify({ weight_map: weightMap }));
    scope(() => saveSafetensors(at('one.safetensors'), [['a', tensor([1])]]));
    index({ a: '../one.safetensors' });
    expect(() => openSafetensors(folder)).toThrow(/not a plain file name/);
    index({ a: 'two.safetensors' });
    expect(() => openSafetensors(folder)).toThrow(/two.safetensors, which is not there/);
    index({ b: 'one.safetensors' });
    expect(() => openSafetensors(folder)).toThrow(/places tensor 'b' in one.safetensors/);
    writeFileSync(at('model.safetensors.index.json'), '{');
    expect(() => openSafetensors(folder)).toThrow(/is not JSON/);
  });

  it('never crashes, whatever the bytes are', () => {
    scope(() =>
      saveSafetensors(at('good.safetensors'), [
        ['a.weight', randn([3, 5])],
        ['b', arange(0, 9)],
        ['c', zeros([2], { dtype: 'bool' })],
      ]),
    );
    const good = readFileSync(at('good.safetensors'));
    const target = at('fuzzed.safetensors');
    const touchAll = (bytes: Buffer): void => {
      writeFileSync(target, bytes);
      try {
        scope(() => {
          const file = openSafetensors(target);
          for (const name of file.names()) if (file.info(name).dtype) file.tensor(name).float().sum().item();
        });
      } catch (error) {
        expect(error).toBeInstanceOf(SafetensorsError);
      }
    };
    const flip = fc.record({ at: fc.nat(good.length - 1), to: fc.nat(255) });
    const digits = fc.record({ at: fc.nat(250), to: fc.constantFrom(...'0123456789-,[]{}":eE.nF') });
    fc.assert(
      fc.property(
        fc.array(flip, { maxLength: 4 }),
        fc.array(digits, { maxLength: 4 }),
        fc.nat(good.length),
        (flips, edits, cut) => {
          const bytes = Buffer.from(good);
          for (const { at: where, to } of flips) bytes[where] = to;
          for (const { at: where, to } of edits) bytes[8 + where] = to.charCodeAt(0);
          touchAll(bytes);
          touchAll(bytes.subarray(0, cut));
        },
      ),
      { numRuns: 1500 },
    );
    for (let cut = 0; cut < good.length; cut++) touchAll(good.subarray(0, cut));
    expect(liveTensors().count).toBe(0);
  });
});

describe('interchange with Python', () => {
  const reason = missingPython('torch', 'safetensors.torch');
  it.skipIf(reason)(`both ways${reason ? ` (skipped: ${reason})` : ''}`, () => {
    runPython(
      `import sys, torch; from safetensors.torch import save_file, load_file
tensors = {str(d).split('.')[1]: (torch.arange(24) % 7).reshape(2, 3, 4).to(d) for d in
  [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool]}
save_file(tensors, sys.argv[1], metadata={'who': 'python'})`,
      at('python.safetensors'),
    );
    scope(() => {
      const file = openSafetensors(at('python.safetensors'));
      expect(file.metadata).toEqual({ who: 'python' });
      expect(new Set(file.names())).toEqual(new Set(dtypes));
      for (const dtype of dtypes) {
        const expected = arange(0, 24).remainder(7).reshape(2, 3, 4).to(dtype);
        expect(file.tensor(dtype).dtype).toBe(dtype);
        expect(file.tensor(dtype).equal(expected)).toBe(true);
      }
      const back = dtypes.map((dtype) => [dtype, file.tensor(dtype)] as const);
      saveSafetensors(at('node.safetensors'), back, { metadata: { who: 'node' } });
    });
    const seen = runPython(
      `import sys; from safetensors.torch import load_file; from safetensors import safe_open
a, b = load_file(sys.argv[1]), load_file(sys.argv[2])
assert a.keys() == b.keys()
for k in a: assert a[k].dtype == b[k].dtype and a[k].equal(b[k]), k
print(len(a), safe_open(sys.argv[2], 'pt').metadata()['who'])`,
      at('python.safetensors'),
      at('node.safetensors'),
    );
    expect(seen.trim()).toBe('10 node');
  });
});
