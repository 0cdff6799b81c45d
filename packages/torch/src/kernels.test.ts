/** The CUDA kernels of our own operators against the CPU's, which are checked elsewhere against plain tensor code. */
import { describe, expect, it } from 'vitest';
import {
  aten,
  cat,
  grad,
  isCudaAvailable,
  keyedUniform,
  manualSeed,
  nn,
  noGrad,
  ones,
  rand,
  randint,
  randn,
  type Tensor,
  tensor,
} from './index.js';

const reason = isCudaAvailable() ? '' : ' (skipped: no CUDA device here)';
const onCuda = (name: string, body: () => void): void => {
  describe.skipIf(reason !== '')(name + reason, body);
};
const cuda = 'cuda:0';

/** Largest difference relative to the largest value. */
function difference(a: Tensor, b: Tensor): number {
  const wide = (x: Tensor): Tensor => x.detach().to('cpu').to('float32');
  const scale = Math.max(1e-6, wide(b).abs().max().item());
  return wide(a).sub(wide(b)).abs().max().item() / scale;
}

const dtypes = [
  ['float32', 1e-5],
  ['bfloat16', 1e-2],
] as const;

onCuda('element-wise kernels', () => {
  it.each(dtypes)('rotate, forth and back, in %s', (dtype, tolerance) => {
    manualSeed(1);
    const [x, angles] = [randn([13, 6, 64]), rand([32, 32]).mul(6)];
    const cos = cat([angles, angles], 1).cos();
    const sin = cat([angles, angles], 1).sin();
    const position = randint(0, 32, [13]);
    const there = (t: Tensor): Tensor => t.to(dtype).to(cuda);
    const wanted = aten.verlet_rope(x, cos, sin, position, false);
    const got = aten.verlet_rope(there(x), there(cos), there(sin), position.to(cuda), false);
    expect(difference(got, wanted)).toBeLessThan(tolerance);
    const back = aten.verlet_rope(got, there(cos), there(sin), position.to(cuda), true);
    expect(difference(back, x)).toBeLessThan(2 * tolerance);

    const part = there(x).setRequiresGrad();
    const turned = aten.verlet_rope_partial(part, there(cos), there(sin), position.to(cuda), 4, false);
    expect(difference(turned.narrow(1, 0, 4), wanted.narrow(1, 0, 4))).toBeLessThan(tolerance);
    expect(difference(turned.narrow(1, 4, 2), x.narrow(1, 4, 2))).toBeLessThan(tolerance);
    const plain = x.clone().setRequiresGrad();
    const outer = randn([13, 6, 64]);
    const onCpu = aten.verlet_rope_partial(plain, cos, sin, position, 4, false);
    const [expected] = grad([onCpu], [plain], [outer]);
    const [gradient] = grad([turned], [part], [there(outer)]);
    expect(difference(gradient!, expected!)).toBeLessThan(tolerance);
  });

  it.each(dtypes)('SwiGLU and its gradient in %s', (dtype, tolerance) => {
    const x = randn([33, 2 * 264]);
    const outer = randn([33, 264]);
    const there = (t: Tensor): Tensor => t.to(dtype).to(cuda);
    expect(difference(aten.verlet_swiglu(there(x)), aten.verlet_swiglu(x))).toBeLessThan(tolerance);
    const wanted = aten.verlet_swiglu_backward(outer, x);
    expect(difference(aten.verlet_swiglu_backward(there(outer), there(x)), wanted)).toBeLessThan(tolerance);
  });

  it.each(dtypes)('residual and norm in %s', (dtype, tolerance) => {
    const [x, residual, weight] = [randn([17, 896]), randn([17, 896]), rand([896])];
    const there = (t: Tensor): Tensor => t.to(dtype).to(cuda);
    const [normed, sum] = aten.verlet_add_rms_norm(there(x), there(residual), there(weight), 1e-6);
    const [wantedNormed, wantedSum] = aten.verlet_add_rms_norm(x, residual, weight, 1e-6);
    expect(difference(normed, wantedNormed)).toBeLessThan(tolerance);
    expect(difference(sum, wantedSum)).toBeLessThan(tolerance);
  });

  it.each(dtypes)('norms back in %s, with weights of few and of many features', (dtype, tolerance) => {
    manualSeed(3);
    const there = (t: Tensor): Tensor => t.to(dtype).to(cuda);
    for (const shape of [
      [700, 896],
      [33, 5, 128],
      [40, 6144],
      [3, 20000],
      [9, 6],
    ]) {
      const features = shape.at(-1)!;
      const [x, weight, outer, around] = [randn(shape), rand([features]), randn(shape), randn(shape)];
      const round = (t: Tensor): Tensor => t.to(dtype).to('float32');
      const arguments_ = [outer, x, weight] as const;
      const [wantedX, wantedWeight] = aten.verlet_rms_norm_backward(
        ...(arguments_.map(round) as [Tensor, Tensor, Tensor]),
        1e-6,
        round(around),
      );
      const [toX, toWeight] = aten.verlet_rms_norm_backward(
        ...(arguments_.map(there) as [Tensor, Tensor, Tensor]),
        1e-6,
        there(around),
      );
      expect(difference(toX, wantedX)).toBeLessThan(tolerance);
      expect(difference(toWeight, wantedWeight)).toBeLessThan(1e-4);
      const leaf = there(x).setRequiresGrad();
      const normed = aten.verlet_rms_norm(leaf, there(weight), 1e-6);
      expect(difference(normed, aten.verlet_rms_norm(round(x), round(weight), 1e-6))).toBeLessThan(tolerance);
      const [own] = grad([normed], [leaf], [there(outer)]);
      expect(difference(own!, wantedX.sub(round(around)))).toBeLessThan(2 * tolerance);
    }
    const [sum, weight] = [there(randn([50, 896])), there(rand([896]))];
    const [normed, same] = aten.verlet_add_rms_norm(sum, sum.mul(0), weight, 1e-6);
    expect(same.equal(sum)).toBe(true);
    expect(normed.equal(aten.verlet_rms_norm(sum, weight, 1e-6))).toBe(true);
  });

  it.each(dtypes)(
    'takes SwiGLU back in place, and gradients of q, k and v to their projection, in %s',
    (dtype, tolerance) => {
      manualSeed(4);
      const there = (t: Tensor): Tensor => t.to(dtype).to(cuda);
      const [x, outer] = [randn([33, 2 * 264]), randn([33, 264])];
      const [ownX, ownOuter] = [there(x), there(outer)];
      aten.verlet_swiglu_backward_(ownOuter, ownX);
      expect(difference(ownOuter, aten.verlet_swiglu(x))).toBeLessThan(tolerance);
      expect(difference(ownX, aten.verlet_swiglu_backward(outer, x))).toBeLessThan(tolerance);
      for (const dim of [64, 12]) {
        const angles = rand([32, dim / 2]).mul(6);
        const tables = [cat([angles, angles], 1).cos(), cat([angles, angles], 1).sin()] as const;
        const position = randint(0, 32, [13]);
        const [q, k, v] = [randn([13, 6, dim]), randn([13, 2, dim]), randn([13, 2, dim])];
        const wanted = aten.verlet_rope_backward(q, k, v, ...tables, position);
        const got = aten.verlet_rope_backward(
          ...([q, k, v].map(there) as [Tensor, Tensor, Tensor]),
          there(tables[0]),
          there(tables[1]),
          position.to(cuda),
        );
        expect(difference(got, wanted)).toBeLessThan(tolerance);
      }
    },
  );

  it.each(dtypes)('sum products into a parameter in %s', (dtype, tolerance) => {
    const there = (t: Tensor): Tensor => t.to(dtype).to(cuda);
    const [a, b] = [randn([40, 64]), randn([40, 24])];
    const parameter = new nn.Parameter(there(randn([64, 24])));
    for (let k = 0; k < 3; k++) parameter.accumulateProduct(there(a), there(b));
    expect(parameter.gradient!.dtype).toBe('float32');
    expect(difference(parameter.gradient!, a.t().mm(b).mul(3))).toBeLessThan(tolerance);
    parameter.dispose();
  });

  it.each([false, true])('norms, rotates and stores in one pass (norm: %s)', (normed) => {
    const [tokens, heads, kvHeads, dim] = [9, 4, 2, 128];
    const qkv = randn([tokens, heads + 2 * kvHeads, dim]);
    const angles = rand([64, dim / 2]);
    const cos = cat([angles, angles], 1).cos();
    const sin = cat([angles, angles], 1).sin();
    const position = tensor(Int32Array.from([0, 1, 2, 3, 40, 41, 42, 5, 63]));
    const slot = tensor(Int32Array.from([0, 1, 2, 3, 20, 21, 22, -1, 47]));
    const weights = normed ? [rand([dim]), rand([dim])] : [null, null];
    const cache = (): Tensor[] => [randn([3, 16, kvHeads, dim]).mul(0), randn([3, 16, kvHeads, dim]).mul(0)];
    const run = (device: string, dtype: 'float32' | 'bfloat16'): Tensor[] => {
      const there = (t: Tensor): Tensor => t.to(dtype).to(device);
      const own = there(qkv).clone();
      const [keys, values] = cache().map(there) as [Tensor, Tensor];
      const [q, k] = weights.map((w) => w && there(w));
      const [p, s] = [position.to(device), slot.to(device)];
      aten.verlet_rope_cache_(own, there(cos), there(sin), p, keys, values, s, heads, q ?? null, k ?? null, 1e-6);
      // Values are stored, not changed, in place.
      return [own.narrow(1, 0, heads + kvHeads), keys, values];
    };
    const wanted = run('cpu', 'float32');
    run(cuda, 'bfloat16').forEach((got, k) => {
      expect(difference(got, wanted[k]!)).toBeLessThan(2e-2);
    });
    run(cuda, 'float32').forEach((got, k) => {
      expect(difference(got, wanted[k]!)).toBeLessThan(1e-5);
    });
  });
});

onCuda('attention over a paged cache', () => {
  it.each([
    { heads: 14, kvHeads: 2, dim: 64, window: 0, rows: 5 },
    { heads: 14, kvHeads: 2, dim: 64, window: 100, rows: 300 },
    { heads: 8, kvHeads: 8, dim: 128, window: 0, rows: 3 },
    { heads: 32, kvHeads: 2, dim: 128, window: 33, rows: 7 },
    { heads: 12, kvHeads: 1, dim: 64, window: 0, rows: 300 },
  ])('is the same as on the CPU: %o', ({ heads, kvHeads, dim, window, rows }) => {
    manualSeed(2);
    const [blocks, blockSize, width] = [200, 16, 70];
    const round = (t: Tensor): Tensor => t.to('bfloat16').to('float32');
    const q = round(randn([rows, heads, dim]));
    const keys = round(randn([blocks, blockSize, kvHeads, dim]));
    const values = round(randn([blocks, blockSize, kvHeads, dim]));
    const table = randint(0, blocks, [rows, width], { dtype: 'int32' });
    const lengths = Int32Array.from({ length: rows }, (_, k) => [1, 1023, 16, 17, 31, 32, 33, 128, 129, 640][k % 10]!);
    const [sequence, limit] = [tensor(Int32Array.from(lengths, (_, k) => k)), tensor(lengths)];
    const scale = dim ** -0.5;
    // The CPU keeps keys turned.
    const turned = keys.permute(0, 2, 3, 1).contiguous();
    const wanted = aten.verlet_paged_attention(q, turned, values, table, sequence, limit, scale, window);
    const there = (t: Tensor): Tensor => t.to('bfloat16').to(cuda);
    const [k, v, t, s, l] = [there(keys), there(values), table.to(cuda), sequence.to(cuda), limit.to(cuda)];
    const got = aten.verlet_paged_attention(there(q), k, v, t, s, l, scale, window);
    expect(difference(got, wanted)).toBeLessThan(1e-2);
    // A view into a wider projection, as the runner passes it.
    const projected = cat([there(q), there(q)], 1).narrow(1, 0, heads);
    expect(aten.verlet_paged_attention(projected, k, v, t, s, l, scale, window).equal(got)).toBe(true);
    // Row by row it is the same up to rounding, whatever the split.
    const alone = aten.verlet_paged_attention(
      there(q).narrow(0, 1, 1),
      k,
      v,
      t.narrow(0, 1, 1).contiguous(),
      s.narrow(0, 0, 1),
      l.narrow(0, 1, 1),
      scale,
      window,
    );
    expect(difference(alone, got.narrow(0, 1, 1))).toBeLessThan(1e-2);
  });

  it('gives zeros to rows that see nothing', () => {
    const int = (values: number[]): Tensor => tensor(Int32Array.from(values), { device: cuda });
    const cache = randn([4, 16, 2, 64], { device: cuda, dtype: 'bfloat16' });
    const q = randn([2, 4, 64], { device: cuda, dtype: 'bfloat16' });
    const out = aten.verlet_paged_attention(q, cache, cache, int([0, 0]).reshape(2, 1), int([0, 1]), int([0, 5]), 1, 0);
    expect(out.select(0, 0).abs().max().item()).toBe(0);
    expect(out.select(0, 1).abs().max().item()).toBeGreaterThan(0);
  });
});

onCuda('sampling', () => {
  const rows = (count: number, value: number, dtype: 'float32' | 'int64'): Tensor =>
    ones([count], { device: cuda, dtype }).mul(value);
  const draw = (
    logits: Tensor,
    options: {
      temperature?: number;
      topK?: number;
      topP?: number;
      minP?: number;
      seed?: number;
      positions?: Tensor;
    } = {},
  ): [Tensor, Tensor] => {
    const n = logits.size(0);
    return aten.verlet_sample(
      logits,
      rows(n, options.temperature ?? 1, 'float32'),
      rows(n, options.topK ?? -1, 'int64'),
      rows(n, options.topP ?? 1, 'float32'),
      rows(n, options.minP ?? 0, 'float32'),
      rows(n, options.seed ?? 3, 'int64'),
      rows(n, 0, 'int64'),
      options.positions ?? aten.arange(n, 'int64', null, cuda),
    );
  };

  it('has the uniform noise of the CPU', () => {
    const key = (values: number[]): Tensor => tensor(Float64Array.from(values), { dtype: 'int64' });
    const [seed, stream, position] = [key([1, 2, -3]), key([0, 5, 9]), key([7, 8, 1e9])];
    const there = keyedUniform(seed.to(cuda), stream.to(cuda), position.to(cuda), 11).to('cpu');
    expect(there.equal(keyedUniform(seed, stream, position, 11))).toBe(true);
  });

  it.each(['float32', 'bfloat16'] as const)('takes the likeliest token when greedy, in %s', (dtype) => {
    manualSeed(3);
    for (const vocabulary of [151936, 1001, 5]) {
      const logits = randn([9, vocabulary], { device: cuda }).to(dtype);
      const [token, logProb] = draw(logits, { temperature: 0 });
      const best = logits.to('float32').max();
      expect(best.item()).toBeGreaterThan(0);
      const chosen = logits.gather(1, token.unsqueeze(1)).squeeze(1).to('float32');
      expect(difference(chosen, logits.to('float32').amax(1))).toBe(0);
      const wanted = logits.to('float32').logSoftmax(-1).gather(1, token.unsqueeze(1)).squeeze(1);
      expect(difference(logProb, wanted)).toBeLessThan(1e-5);
    }
  });

  it.each([1, 0.7])('draws from the softmax at temperature %d', (temperature) => {
    manualSeed(4);
    const row = randn([1, 12], { device: cuda }).mul(2);
    const draws = 200_000;
    const [token, logProb] = draw(row.expand(draws, 12).contiguous(), { temperature });
    const counts = new Float64Array(12);
    for (const id of token.toInt32Array()) counts[id]!++;
    const expected = row.div(temperature).logSoftmax(-1).exp().toFloat32Array();
    let chiSquare = 0;
    expected.forEach((p, k) => {
      chiSquare += (counts[k]! - draws * p) ** 2 / (draws * p);
    });
    // 11 degrees of freedom: 1 in 100,000 draws of this test would exceed 42.
    expect(chiSquare).toBeLessThan(42);
    const wanted = row.div(temperature).logSoftmax(-1).select(0, 0).indexSelect(0, token);
    expect(difference(logProb, wanted)).toBeLessThan(1e-5);
  });

  it('keeps to what top-k, top-p and min-p leave', () => {
    manualSeed(5);
    const row = randn([1, 1000], { device: cuda }).mul(3).to('bfloat16');
    const many = row.expand(4096, 1000).contiguous();
    const p = row.to('float32').logSoftmax(-1).exp().toFloat32Array();
    const order = Array.from(p.keys()).sort((a, b) => p[b]! - p[a]! || a - b);
    const seen = (options: Parameters<typeof draw>[1]): Set<number> => new Set(draw(many, options)[0].toInt32Array());
    const subset = (found: Set<number>, allowed: number[]): void => {
      for (const id of found) expect(allowed).toContain(id);
    };
    subset(seen({ topK: 7 }), order.slice(0, 7));
    expect(seen({ topK: 1 })).toEqual(new Set([order[0]]));
    let mass = 0;
    const nucleus = order.filter((id) => {
      const inside = mass < 0.8;
      mass += p[id]!;
      return inside;
    });
    const found = seen({ topP: 0.8 });
    subset(found, nucleus);
    expect(found.size).toBeGreaterThan(nucleus.length * 0.5);
    subset(
      seen({ minP: 0.2 }),
      order.filter((id) => p[id]! >= 0.2 * p[order[0]!]! * 0.999),
    );
    const [token, logProb] = draw(many, { topK: 7 });
    // Log-probs are of the whole distribution.
    const wanted = row.to('float32').logSoftmax(-1).select(0, 0).indexSelect(0, token);
    expect(difference(logProb, wanted)).toBeLessThan(1e-4);
  });

  it('does not depend on who shares the batch', () => {
    const logits = randn([300, 5000], { device: cuda });
    const positions = aten.arange(300, 'int64', null, cuda);
    const [together] = draw(logits, { positions });
    for (const k of [0, 17, 299]) {
      const [alone] = draw(logits.narrow(0, k, 1), { positions: positions.narrow(0, k, 1) });
      expect(alone.item()).toBe(together.select(0, k).item());
    }
  });

  it('takes the next token from the host or from the step before', () => {
    const int = (values: number[]): Tensor => tensor(Int32Array.from(values), { device: cuda });
    const previous = tensor(Float64Array.from([70, 80, 90]), { dtype: 'int64', device: cuda });
    expect(aten.verlet_next_tokens(int([1, 2, 3]), int([-1, 2, 0]), previous).toArray()).toEqual([1, 90, 70]);
  });
});

onCuda('log-probs of chosen tokens', () => {
  it.each([
    ['float32', 1001, 1e-4],
    ['bfloat16', 151936, 2e-2],
  ] as const)('and their gradient, %s, vocabulary %d', (dtype, vocabulary, tolerance) => {
    manualSeed(6);
    const tokens = 21;
    const logits = randn([tokens, vocabulary]).mul(2).to(dtype).to('float32');
    const targets = randint(0, vocabulary, [tokens]);
    const [outer, inner] = [randn([tokens]), randn([tokens])];
    const there = logits.to(dtype).to(cuda);
    const wanted = aten.verlet_token_log_probs(logits, targets, 0.8);
    const got = aten.verlet_token_log_probs(there, targets.to(cuda), 0.8);
    got.forEach((value, k) => {
      expect(difference(value, wanted[k]!)).toBeLessThan(1e-4);
    });
    for (const withEntropy of [false, true]) {
      const run = (x: Tensor, results: readonly Tensor[]): Tensor => {
        const device = x.device;
        const [, normalizer, entropy] = results as [Tensor, Tensor, Tensor];
        const ge = withEntropy ? inner.to(device) : null;
        const arrived = [targets.to(device), normalizer, entropy, outer.to(device), ge] as const;
        return noGrad(() => aten.verlet_token_log_probs_backward_(x.clone(), ...arrived, 0.8));
      };
      expect(difference(run(there, got), run(logits, wanted))).toBeLessThan(tolerance);
    }
  });
});
