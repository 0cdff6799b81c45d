import { inspect } from 'node:util';
import fc from 'fast-check';
import { afterEach, describe, expect, it } from 'vitest';
import {
  arange,
  aten,
  cat,
  type DType,
  dtypeSize,
  einsum,
  empty,
  full,
  liveTensors,
  ones,
  operator,
  operatorSchemas,
  rand,
  randint,
  randperm,
  scope,
  stack,
  type Tensor,
  TorchError,
  tensor,
  where,
  zeros,
} from './index.js';

const dtypes: DType[] = [
  'float32',
  'float64',
  'bfloat16',
  'float16',
  'int64',
  'int32',
  'int16',
  'int8',
  'uint8',
  'bool',
];

afterEach(() => expect(liveTensors().count).toBe(0));

function message(body: () => unknown): string {
  try {
    body();
  } catch (error) {
    expect(error).toBeInstanceOf(TorchError);
    return (error as Error).message;
  }
  throw new Error('nothing was thrown');
}

describe('making tensors', () => {
  for (const dtype of dtypes) {
    it(`round trips ${dtype}`, () => {
      scope(() => {
        const values = [
          [0, 1, 1],
          [1, 0, 1],
        ];
        const made = tensor(values, { dtype });
        expect([made.dtype, made.shape, made.device, made.numel, made.ndim]).toEqual([dtype, [2, 3], 'cpu', 6, 2]);
        expect(made.toNested()).toEqual(values);
        expect([...made.toInt32Array()]).toEqual([0, 1, 1, 1, 0, 1]);
        expect(made.nbytes).toBe(6 * dtypeSize[dtype]);
        expect(ones([2], { dtype }).toArray()).toEqual([1, 1]);
        expect(full([2], 1, { dtype }).equal(ones([2], { dtype }))).toBe(true);
        expect(zeros([2, 0], { dtype }).toArray()).toEqual([]);
        expect(made.to('float64').to(dtype).equal(made)).toBe(true);
      });
    });
  }

  it('takes every typed array with its own dtype, and converts when asked', () => {
    scope(() => {
      expect(tensor(new Float32Array([1.5, 2])).dtype).toBe('float32');
      expect(tensor(new Float64Array([1.5, 2])).dtype).toBe('float64');
      expect(tensor(new Int32Array([1, 2])).dtype).toBe('int32');
      expect(tensor(new Int16Array([1, 2])).dtype).toBe('int16');
      expect(tensor(new Int8Array([1, 2])).dtype).toBe('int8');
      expect(tensor(new Uint8Array([1, 2])).dtype).toBe('uint8');
      expect(tensor(new BigInt64Array([2n ** 62n])).toBigInt64Array()[0]).toBe(2n ** 62n);
      expect(tensor(new Int32Array([1, 2, 3, 4]), { shape: [2, 2], dtype: 'int64' }).toNested()).toEqual([
        [1, 2],
        [3, 4],
      ]);
      // 0x3fc0 is 1.5 in bfloat16, 0x3e00 in float16.
      expect(tensor(new Uint16Array([0x3fc0]), { dtype: 'bfloat16' }).item()).toBe(1.5);
      expect(tensor(new Uint16Array([0x3e00]), { dtype: 'float16' }).item()).toBe(1.5);
      const part = new Float32Array([1, 2, 3, 4]).subarray(1, 3);
      expect(tensor(part).toArray()).toEqual([2, 3]);
      const source = new Float32Array([1, 2]);
      const copied = tensor(source);
      source[0] = 9;
      expect(copied.toArray()).toEqual([1, 2]);
    });
  });

  it('refuses ragged arrays, wrong shapes and unknown dtypes', () => {
    expect(message(() => tensor([[1, 2], [3]]))).toMatch(/ragged/);
    expect(message(() => tensor([[1], 2] as never))).toMatch(/ragged/);
    expect(message(() => tensor(new Float32Array(3), { shape: [2, 2] }))).toMatch(/3 elements, the shape asks for 4/);
    expect(message(() => tensor(new Uint16Array(2)))).toMatch(/give a dtype/);
    expect(() => zeros([1], { dtype: 'float8' as DType })).toThrow(/unknown dtype 'float8'; known: uint8/);
  });

  it('has factories for ranges and random numbers', () => {
    scope(() => {
      expect(arange(4).toArray()).toEqual([0, 1, 2, 3]);
      expect(arange(1, 2, 0.25, { dtype: 'float32' }).toArray()).toEqual([1, 1.25, 1.5, 1.75]);
      expect(randperm(50).sort()[0].toArray()).toEqual(arange(50).toArray());
      const drawn = randint(-3, 4, [1000]);
      expect([drawn.min().item(), drawn.max().item(), drawn.dtype]).toEqual([-3, 3, 'int64']);
      const uniform = rand([1000]);
      expect(uniform.min().item()).toBeGreaterThanOrEqual(0);
      expect(uniform.max().item()).toBeLessThan(1);
      expect(empty([3, 4], { dtype: 'bfloat16' }).shape).toEqual([3, 4]);
      expect(zeros([2], { requiresGrad: true }).requiresGrad).toBe(true);
    });
  });

  it('gives back any numbers in any shape', () => {
    const shaped = fc.array(fc.integer({ min: 1, max: 4 }), { maxLength: 4 }).chain((shape) => {
      const count = shape.reduce((a, b) => a * b, 1);
      return fc.tuple(fc.constant(shape), fc.array(fc.float({ noNaN: true }), { minLength: count, maxLength: count }));
    });
    fc.assert(
      fc.property(shaped, ([shape, values]) => {
        scope(() => {
          const made = tensor(new Float32Array(values), { shape });
          expect(made.shape).toEqual(shape);
          expect([...made.toFloat32Array()]).toEqual([...new Float32Array(values)]);
          if (shape.length > 0) expect(tensor(made.toNested() as number[]).equal(made)).toBe(true);
        });
      }),
      { numRuns: 100 },
    );
  });
});

describe('arithmetic', () => {
  it('keeps integers integers and floats floats', () => {
    scope(() => {
      const whole = tensor([1, 2], { dtype: 'int64' });
      expect(whole.add(1).dtype).toBe('int64');
      expect(whole.add(1.5).dtype).toBe('float32');
      expect(whole.mul(2 ** 40).toArray()).toEqual([2 ** 40, 2 ** 41]);
      expect(whole.div(2).toArray()).toEqual([0.5, 1]);
      expect(whole.floorDivide(2).toArray()).toEqual([0, 1]);
      expect(tensor([-3]).remainder(2).item()).toBe(1);
      expect(tensor([2, 3]).pow(2).toArray()).toEqual([4, 9]);
      expect(tensor([5]).rsub(7).item()).toBe(2);
      expect(tensor([1, 2, 3]).clamp(null, 2).toArray()).toEqual([1, 2, 2]);
      expect(Object.is(tensor([0]).mul(-0).item(), -0)).toBe(true);
    });
  });

  it('changes tensors in place and says so by returning them', () => {
    scope(() => {
      const value = tensor([1, 2]);
      expect(
        value
          .add_(1)
          .mul_(tensor([2, 3]))
          .sub_(1)
          .div_(2),
      ).toBe(value);
      expect(value.toArray()).toEqual([1.5, 4]);
      value.slice(0, 0, 1).fill_(7);
      expect(value.toArray()).toEqual([7, 4]);
      value.copy_(tensor([8, 9], { dtype: 'int32' }));
      expect(value.zero_().sum().item()).toBe(0);
      expect(value.maskedFill_(tensor([0, 1], { dtype: 'bool' }), 5).toArray()).toEqual([0, 5]);
    });
  });

  it('reduces, sorts and compares', () => {
    scope(() => {
      const grid = tensor([
        [3, 1, 2],
        [6, 5, 4],
      ]);
      expect(grid.sum().item()).toBe(21);
      expect(grid.sum(1).toArray()).toEqual([6, 15]);
      expect(grid.mean([0, 1]).item()).toBe(3.5);
      expect(grid.mean(0, true).shape).toEqual([1, 3]);
      expect(grid.amax(1).toArray()).toEqual([3, 6]);
      expect(grid.argmax(1).toArray()).toEqual([0, 0]);
      expect(grid.var(1).toArray()).toEqual([1, 1]);
      expect(grid.std(null, { correction: 0 }).item()).toBeCloseTo(Math.sqrt(35 / 12));
      expect(grid.sort(1)[0].toNested()).toEqual([
        [1, 2, 3],
        [4, 5, 6],
      ]);
      expect(grid.topk(2)[1].toNested()).toEqual([
        [0, 2],
        [0, 1],
      ]);
      expect(grid.cumsum(1).toNested()).toEqual([
        [3, 4, 6],
        [6, 11, 15],
      ]);
      expect(grid.gt(2).logicalAnd(grid.lt(6)).toNested()).toEqual([
        [1, 0, 0],
        [0, 1, 1],
      ]);
      expect(grid.logSoftmax(1).logsumexp(1).abs().max().item()).toBeLessThan(1e-6);
      expect(grid.norm().item()).toBeCloseTo(Math.sqrt(91));
      expect(grid.allclose(grid.add(1e-9))).toBe(true);
      expect(where(grid.gt(3), grid, 0).toNested()).toEqual([
        [0, 0, 0],
        [6, 5, 4],
      ]);
      expect(einsum('ij,kj->ik', grid, grid).equal(grid.matmul(grid.t()))).toBe(true);
    });
  });
});

describe('shape and indexing', () => {
  it('views share memory, copies do not', () => {
    scope(() => {
      const base = arange(24, undefined, 1, { dtype: 'float32' });
      const cube = base.view(2, 3, 4);
      cube.select(0, 1).select(0, 2).fill_(-1);
      expect(base.slice(0, 20).toArray()).toEqual([-1, -1, -1, -1]);
      expect(cube.permute(2, 0, 1).shape).toEqual([4, 2, 3]);
      expect(cube.permute(2, 0, 1).isContiguous).toBe(false);
      expect(cube.transpose(0, 2).contiguous().isContiguous).toBe(true);
      expect(cube.strides).toEqual([12, 4, 1]);
      expect(cube.flatten(1).shape).toEqual([2, 12]);
      expect(cube.reshape(-1, 6).shape).toEqual([4, 6]);
      expect(cube.unsqueeze(0).squeeze(0).shape).toEqual([2, 3, 4]);
      expect(cube.size(-1)).toBe(4);
      expect(tensor([1]).expand(3).toArray()).toEqual([1, 1, 1]);
      base.clone().fill_(0);
      expect(base.select(0, 1).item()).toBe(1);
    });
  });

  it('selects, gathers and scatters', () => {
    scope(() => {
      const grid = arange(12).view(3, 4);
      expect(grid.slice(1, 1, -1).toNested()).toEqual([
        [1, 2],
        [5, 6],
        [9, 10],
      ]);
      expect(grid.slice(0, null, null, 2).toNested()).toEqual([
        [0, 1, 2, 3],
        [8, 9, 10, 11],
      ]);
      expect(grid.narrow(0, 1, 1).toArray()).toEqual([4, 5, 6, 7]);
      expect(
        grid
          .indexSelect(0, tensor([2, 0], { dtype: 'int64' }))
          .select(1, 0)
          .toArray(),
      ).toEqual([8, 0]);
      const rows = tensor([0, 2], { dtype: 'int64' });
      expect(grid.index(rows, tensor([1, 3], { dtype: 'int64' })).toArray()).toEqual([1, 11]);
      expect(grid.index(null, rows).toNested()).toEqual([
        [0, 2],
        [4, 6],
        [8, 10],
      ]);
      expect(grid.index(grid.gt(9)).toArray()).toEqual([10, 11]);
      expect(grid.gather(1, tensor([[3], [2], [1]], { dtype: 'int64' })).toArray()).toEqual([3, 6, 9]);
      expect(grid.maskedSelect(grid.eq(5)).toArray()).toEqual([5]);
      const target = zeros([4]);
      target.indexAdd_(0, tensor([1, 1, 3], { dtype: 'int64' }), tensor([1, 2, 3]));
      expect(target.toArray()).toEqual([0, 3, 0, 3]);
      target
        .scatter_(0, tensor([0], { dtype: 'int64' }), 9)
        .indexCopy_(0, tensor([2], { dtype: 'int64' }), tensor([8]));
      expect(target.toArray()).toEqual([9, 3, 8, 3]);
      target.indexPut_([tensor([0, 0], { dtype: 'int64' })], tensor([1, 1]), true);
      expect(target.select(0, 0).item()).toBe(11);
    });
  });

  it('joins and splits', () => {
    scope(() => {
      const [a, b] = [tensor([1, 2]), tensor([3, 4])];
      expect(cat([a, b]).toArray()).toEqual([1, 2, 3, 4]);
      expect(stack([a, b], 1).toNested()).toEqual([
        [1, 3],
        [2, 4],
      ]);
      expect(
        arange(5)
          .split(2)
          .map((part) => part.toArray()),
      ).toEqual([[0, 1], [2, 3], [4]]);
      expect(
        arange(5)
          .split([1, 4])
          .map((part) => part.numel),
      ).toEqual([1, 4]);
      expect(arange(6).chunk(3)).toHaveLength(3);
      expect(stack([a, b]).unbind()[1]!.equal(b)).toBe(true);
      expect(a.repeatInterleave(2).toArray()).toEqual([1, 1, 2, 2]);
      expect(a.repeat(2).toArray()).toEqual([1, 2, 1, 2]);
      expect(a.repeatInterleave(tensor([0, 3], { dtype: 'int64' })).toArray()).toEqual([2, 2, 2]);
      expect(cat(Array.from({ length: 30_000 }, () => a)).numel).toBe(60_000);
      expect(aten.unbind_int(zeros([40_000, 1]), 0)).toHaveLength(40_000);
    });
  });
});

describe('errors', () => {
  it('name the operator, the shapes and the dtypes', () => {
    scope(() => {
      const wrong = message(() => zeros([2, 3]).matmul(zeros([4, 5], { dtype: 'float32' })));
      expect(wrong).toMatch(/aten::matmul/);
      expect(wrong).toMatch(/self: Float\[2, 3\]/);
      expect(wrong).toMatch(/other: Float\[4, 5\]/);
      expect(wrong).not.toMatch(/frame #/);
      const mixed = message(() => zeros([2, 2]).mm(zeros([2, 2], { dtype: 'float64' })));
      expect(mixed).toMatch(/aten::mm/);
      expect(mixed).toMatch(/Float\[2, 2\]/);
      expect(mixed).toMatch(/Double\[2, 2\]/);
      expect(message(() => cat([zeros([1, 2]), zeros([1, 3])]))).toMatch(/tensors: \[Float\[1, 2\], Float\[1, 3\]\]/);
      expect(message(() => zeros([2]).item())).toMatch(/item/);
      expect(message(() => zeros([2]).size(3))).toMatch(/1 dimensions/);
      expect(message(() => arange(3).to('cuda:99'))).toMatch(/cuda/i);
    });
  });

  it('a failed operator leaves nothing behind and the next one works', () => {
    scope(() => {
      const a = zeros([2]);
      const before = liveTensors().count;
      for (let k = 0; k < 10; k++) expect(() => a.add(zeros([3]))).toThrow();
      expect(liveTensors().count - before).toBe(10);
      expect(a.add(1).toArray()).toEqual([1, 1]);
    });
  });
});

describe('any operator by name', () => {
  it('follows the schema, defaults included', () => {
    scope(() => {
      const erf = operator('aten::erf');
      expect((erf(tensor([0])) as Tensor).item()).toBe(0);
      const [values, indices] = operator('aten::max.dim')(tensor([[1, 3, 2]]), 1) as [Tensor, Tensor];
      expect([values.item(), indices.item()]).toEqual([3, 1]);
      const meshed = operator('aten::meshgrid.indexing')([arange(2), arange(3)], 'ij') as Tensor[];
      expect(meshed.map((t) => t.shape)).toEqual([
        [2, 3],
        [2, 3],
      ]);
      const value = tensor([4]);
      expect(operator('aten::sqrt_')(value)).toBe(value);
      expect(value.item()).toBe(2);
      expect(message(() => operator('aten::no_such_thing'))).toMatch(/no operator 'aten::no_such_thing'/);
      expect(message(() => erf(3))).toMatch(/argument 'self' wants a Tensor, got number/);
      expect(message(() => erf())).toMatch(/'self' is missing/);
      expect(message(() => erf(value, 1, 2))).toMatch(/got 3 arguments/);
    });
    expect(operatorSchemas().length).toBeGreaterThan(2000);
  });
});

describe('printing', () => {
  it('aligns columns, leaves out the middle, names dtype and shape', () => {
    scope(() => {
      expect(
        String(
          tensor([
            [1, -2.5],
            [100, 0],
          ]),
        ),
      ).toBe('tensor([[  1.0000,  -2.5000],\n        [100.0000,   0.0000]], float32[2, 2])');
      expect(inspect(tensor([1, 20], { dtype: 'int64' }))).toBe('tensor([ 1, 20], int64[2])');
      expect(String(tensor([1, 0], { dtype: 'bool' }))).toBe('tensor([ true, false], bool[2])');
      expect(String(zeros([0, 2]))).toBe('tensor([], float32[0, 2])');
      expect(String(tensor(3))).toBe('tensor(3.0000, float32[])');
      expect(String(tensor([Number.NaN, Number.POSITIVE_INFINITY]))).toMatch(/nan,\s+inf/);
      expect(String(tensor([1e-9, 1]))).toMatch(/1.0000e-9/);
      expect(String(tensor([1]).setRequiresGrad())).toMatch(/requiresGrad/);
      const long = String(arange(5000));
      expect(long).toMatch(/^tensor\(\[\s*0,\s*1,\s*2, \.\.\., 4997, 4998, 4999\], int64\[5000\]\)$/);
      expect(String(zeros([100, 100])).split('\n')).toHaveLength(7);
    });
    const gone = zeros([1]);
    gone.dispose();
    expect(String(gone)).toBe('tensor(disposed)');
  });
});

describe('arguments of the wrong kind', () => {
  it('are refused before anything reaches libtorch', () => {
    const wrong = [
      () => operator('aten::permute')(ones([2, 2]), ones([2])),
      () => operator('aten::cat')(ones([2])),
      () => operator('aten::cat')([1 as never]),
      () => operator('aten::add.Tensor')(1, ones([2])),
      () => aten.cat(undefined as never),
      () => aten.permute(ones([2, 2]), ones([2]) as never),
    ];
    for (const call of wrong) expect(() => scope(call)).toThrow();
    expect(scope(() => ones([3]).sum().item())).toBe(3);
  });
});
