/** The CPU's fused kernels against plain tensor code in double precision, and the memory that they are given. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { aten, cat, full, grad, manualSeed, noGrad, randn, scope, type Tensor, tensor } from './index.js';

function difference(a: Tensor, b: Tensor): number {
  return scope(() => a.detach().to('float64').sub(b.detach().to('float64')).abs().max().item());
}

/** Values and gradients of one function in float32 by the kernel and in float64 written out. */
function compare(kernel: (...x: Tensor[]) => Tensor, plain: (...x: Tensor[]) => Tensor, inputs: Tensor[]): number {
  const wide = inputs.map((x) => x.detach().to('float64').setRequiresGrad());
  const own = inputs.map((x) => x.detach().clone().setRequiresGrad());
  const [got, wanted] = [kernel(...own), plain(...wide)];
  const outer = randn(got.shape);
  const gradients = grad([got], own, [outer]);
  const expected = grad([wanted], wide, [outer.to('float64')]);
  return Math.max(difference(got, wanted), ...gradients.map((x, k) => difference(x!, expected[k]!)));
}

describe('RMS norm', () => {
  const plain = (x: Tensor, weight: Tensor): Tensor => x.div(x.square().mean(-1, true).add(1e-6).sqrt()).mul(weight);
  it.each([[[1, 1]], [[3, 7]], [[300, 256]], [[40, 4, 24]], [[0, 8]]])(
    'of %j equals its formula, both ways',
    (shape) => {
      manualSeed(1);
      const inputs = [randn(shape), randn([shape.at(-1)!])];
      if (shape[0] === 0) expect(aten.verlet_rms_norm(inputs[0]!, inputs[1]!, 1e-6).shape).toEqual(shape);
      else
        expect(compare((x, w) => aten.verlet_rms_norm(x, w, 1e-6), plain, inputs)).toBeLessThan(
          shape[0]! > 100 ? 2e-4 : 3e-5,
        );
    },
  );

  it('reads slices as they lie, and bfloat16 too', () => {
    manualSeed(2);
    const x = randn([9, 6, 16]);
    const weight = randn([16]);
    const slice = (whole: Tensor): Tensor => whole.narrow(1, 2, 3);
    expect(
      compare(
        (whole, w) => aten.verlet_rms_norm(slice(whole), w, 1e-6),
        (whole, w) => plain(slice(whole), w),
        [x, weight],
      ),
    ).toBeLessThan(3e-5);
    const half = aten.verlet_rms_norm(x.to('bfloat16'), weight.to('bfloat16'), 1e-6);
    expect(half.dtype).toBe('bfloat16');
    expect(difference(half, plain(x, weight))).toBeLessThan(0.06);
  });

  it.each(['float32', 'bfloat16'] as const)(
    'goes back by hand as by autograd, with a gradient that goes around it: %s',
    (dtype) => {
      manualSeed(4);
      const [x, weight] = [randn([150, 32]).to(dtype).setRequiresGrad(), randn([32]).to(dtype).setRequiresGrad()];
      const [outer, around] = [randn([150, 32]).to(dtype), randn([150, 32]).to(dtype)];
      const wide = [x, weight].map((t) => t.detach().to('float64').setRequiresGrad());
      const [wantedX, wantedWeight] = grad([plain(wide[0]!, wide[1]!)], wide, [outer.to('float64')]);
      const [toX, toWeight] = noGrad(() => aten.verlet_rms_norm_backward(outer, x, weight, 1e-6, around));
      const tolerance = dtype === 'float32' ? 2e-5 : 0.06;
      expect(difference(toX, wantedX!.add(around.to('float64')))).toBeLessThan(tolerance);
      expect(toWeight.dtype).toBe('float32');
      expect(difference(toWeight, wantedWeight!)).toBeLessThan(2e-4);
    },
  );

  it('behind a residual sum gives the bits of the norm of the sum', () => {
    const [x, residual, weight] = [randn([5, 24]), randn([5, 24]), randn([24])];
    const [normed, sum] = aten.verlet_add_rms_norm(x, residual, weight, 1e-6);
    expect(sum.equal(x.add(residual))).toBe(true);
    expect(normed.equal(aten.verlet_rms_norm(sum, weight, 1e-6))).toBe(true);
  });

  it('refuses a weight of another width', () => {
    expect(() => aten.verlet_rms_norm(randn([2, 8]), randn([4]), 1e-6)).toThrow(/8 features, the weight 4/);
  });
});

describe('SwiGLU', () => {
  it.each(['float32', 'bfloat16'] as const)('exchanges activation and gradients in place: %s', (dtype) => {
    manualSeed(5);
    const [x, outer] = [randn([7, 2 * 24]).to(dtype), randn([7, 24]).to(dtype)];
    const [wantedX, wanted] = [aten.verlet_swiglu_backward(outer, x), aten.verlet_swiglu(x)];
    const tolerance = dtype === 'float32' ? 1e-6 : 0.04;
    aten.verlet_swiglu_backward_(outer, x);
    expect(difference(outer, wanted)).toBeLessThan(tolerance);
    expect(difference(x, wantedX)).toBeLessThan(tolerance);
    expect(() => aten.verlet_swiglu_backward_(randn([7, 20]), randn([7, 48]))).toThrow(/half as wide/);
  });

  it.each([1, 5, 64])('of width %i equals its formula, both ways', (width) => {
    manualSeed(3);
    const plain = (x: Tensor): Tensor => {
      const [gate, up] = x.split([width, width], -1) as [Tensor, Tensor];
      return gate.mul(gate.sigmoid()).mul(up);
    };
    expect(compare((x) => aten.verlet_swiglu(x), plain, [randn([33, 2 * width]).mul(6)])).toBeLessThan(2e-5);
  });

  it('stays finite at the ends of the range and passes on what is not a number', () => {
    const out = aten.verlet_swiglu(full([1, 4], -200)).toFloat32Array();
    expect(Math.abs(out[0]!)).toBeLessThan(1e-30);
    expect(aten.verlet_swiglu(full([1, 4], 200)).toFloat32Array()[0]).toBe(40000);
    expect(aten.verlet_swiglu(full([1, 4], Number.NaN)).toFloat32Array()[0]).toBeNaN();
  });
});

describe('rotary embedding', () => {
  it('of the first heads equals its formula, forth and back, and copies the others', () => {
    manualSeed(4);
    const angles = randn([20, 4]).mul(3);
    const [cos, sin] = [cat([angles, angles], 1).cos(), cat([angles, angles], 1).sin()];
    const position = tensor(Int32Array.from([3, 0, 19, 7, 7]), { dtype: 'int64' });
    const plain = (x: Tensor): Tensor => {
      const [turned, rest] = x.split([3, 2], 1) as [Tensor, Tensor];
      const [a, b] = turned.split([4, 4], 2) as [Tensor, Tensor];
      const by = (table: Tensor): Tensor => table.to('float64').indexSelect(0, position).unsqueeze(1);
      return cat([turned.mul(by(cos)).add(cat([b.neg(), a], 2).mul(by(sin))), rest], 1);
    };
    const rotate = (x: Tensor): Tensor => aten.verlet_rope_partial(x, cos, sin, position, 3, false);
    expect(compare(rotate, plain, [randn([5, 5, 8])])).toBeLessThan(1e-5);
    const wide = randn([5, 7, 8]);
    const slice = wide.narrow(1, 1, 5);
    expect(rotate(slice).equal(rotate(slice.contiguous()))).toBe(true);
    expect(() => aten.verlet_rope_partial(slice, cos, sin, position, 6, false)).toThrow(/cannot rotate 6 of 5/);
  });
});

describe('packed attention', () => {
  it('refuses lengths that do not add up', () => {
    const [q, k] = [randn([5, 2, 8]), randn([5, 1, 8])];
    expect(() => aten.verlet_packed_attention(q, k, k, [2, 2], 1, 0)).toThrow(/add up to 4 tokens, q has 5/);
    expect(() => aten.verlet_packed_attention(q, randn([5, 3, 8]), k, [5], 1, 0)).toThrow(/do not match/);
    const none = randn([5, 0, 8]);
    expect(() => aten.verlet_packed_attention(q, none, none, [5], 1, 0)).toThrow(/do not match/);
    // Together they would be 0 tokens of 64 bits.
    const huge = new Array<number>(2048).fill(2 ** 53);
    expect(() => aten.verlet_packed_attention(q, k, k, [...huge, 5], 1, 0)).toThrow(/cannot have 9007199254740992/);
  });
});

describe('paged attention', () => {
  it('refuses tokens without a sequence or a limit, and caches without heads', () => {
    const int = (...values: number[]): Tensor => tensor(Int32Array.from(values));
    const table = int(0).reshape(1, 1);
    const attend = (heads: number, sequence: Tensor, limit: Tensor): Tensor =>
      aten.verlet_paged_attention(
        randn([2, 2, 8]),
        randn([1, heads, 8, 16]),
        randn([1, 16, heads, 8]),
        table,
        sequence,
        limit,
        1,
        0,
      );
    expect(attend(1, int(0, 0), int(1, 2)).shape).toEqual([2, 2, 8]);
    expect(() => attend(1, int(0), int(1, 2))).toThrow(/a sequence and a limit for each token/);
    expect(() => attend(1, int(0, 0), int(1))).toThrow(/a sequence and a limit for each token/);
    expect(() => attend(0, int(0, 0), int(1, 2))).toThrow(/heads do not match/);
  });
});

describe('memory of large tensors', () => {
  it('is never given to two at once', () => {
    const megabyte = 2 ** 18;
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.integer({ min: 1, max: 9 }), fc.boolean()), { minLength: 5, maxLength: 40 }),
        (steps) => {
          const live: { value: number; tensor: Tensor }[] = [];
          for (const [k, [size, frees]] of steps.entries()) {
            if (frees && live.length > 0) live.splice(k % live.length, 1)[0]!.tensor.dispose();
            else live.push({ value: k, tensor: full([size * megabyte + k], k) });
          }
          for (const { value, tensor } of live) {
            expect([tensor.min().item(), tensor.max().item()]).toEqual([value, value]);
            tensor.dispose();
          }
        },
      ),
      { numRuns: 10 },
    );
  });
});
