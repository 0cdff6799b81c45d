import { afterEach, describe, expect, it } from 'vitest';
import {
  arange,
  aten,
  full,
  generatorState,
  keyedUniform,
  liveTensors,
  manualSeed,
  rand,
  randn,
  scope,
  setGeneratorState,
  type Tensor,
  tensor,
} from './index.js';

afterEach(() => expect(liveTensors().count).toBe(0));

const int64 = (values: number[]) => tensor(values, { dtype: 'int64' });

describe('generators', () => {
  it('repeat themselves from a seed and from a saved state', () => {
    scope(() => {
      manualSeed(5);
      const first = randn([4]);
      const state = generatorState();
      const second = rand([4]);
      manualSeed(5);
      expect(randn([4]).equal(first)).toBe(true);
      setGeneratorState(state);
      expect(rand([4]).equal(second)).toBe(true);
      expect(rand([4]).equal(second)).toBe(false);
      manualSeed(6);
      expect(randn([4]).equal(first)).toBe(false);
      expect(() => manualSeed(0.5)).toThrow(/integer/);
      expect(() => setGeneratorState(tensor([1]))).toThrow();
    });
  });
});

describe('keyed noise', () => {
  it('depends on its own key alone, not on the batch or its order', () => {
    scope(() => {
      const rows = 64;
      const [seed, stream, position] = [full([rows], 3, { dtype: 'int64' }), arange(rows), arange(rows).mul(7)];
      const whole = keyedUniform(seed, stream, position, 9);
      const order = int64([5, 63, 0, 17]);
      const some = keyedUniform(
        seed.indexSelect(0, order),
        stream.indexSelect(0, order),
        position.indexSelect(0, order),
        9,
      );
      expect(some.equal(whole.indexSelect(0, order))).toBe(true);
      // Fewer numbers are a prefix of more.
      expect(keyedUniform(seed, stream, position, 3).equal(whole.slice(1, 0, 3))).toBe(true);
      manualSeed(1);
      rand([10]);
      expect(keyedUniform(seed, stream, position, 9).equal(whole)).toBe(true);
    });
  });

  it('differs in every part of the key and looks uniform', () => {
    scope(() => {
      const zero = int64([0]);
      const one = int64([1]);
      const drawn = [
        keyedUniform(zero, zero, zero, 4),
        keyedUniform(one, zero, zero, 4),
        keyedUniform(zero, one, zero, 4),
        keyedUniform(zero, zero, one, 4),
      ].map((t) => t.toArray().join());
      expect(new Set(drawn).size).toBe(4);
      const n = 200_000;
      const many = keyedUniform(full([n], 42, { dtype: 'int64' }), arange(n), arange(n), 1);
      expect(many.min().item()).toBeGreaterThan(0);
      expect(many.max().item()).toBeLessThan(1);
      expect(many.mean().item()).toBeCloseTo(0.5, 2);
      expect(many.var().item()).toBeCloseTo(1 / 12, 2);
      const counts = aten.bincount(many.flatten().mul(20).floor().long(), null, 20);
      // Chi-square with 19 degrees of freedom: above 44 once in a thousand seeds; the seed is fixed.
      expect(
        counts
          .sub(n / 20)
          .square()
          .div(n / 20)
          .sum()
          .item(),
      ).toBeLessThan(44);
      const neighbours = many
        .flatten()
        .slice(0, 1)
        .sub(0.5)
        .mul(many.flatten().slice(0, 0, -1).sub(0.5))
        .mean()
        .item();
      expect(Math.abs(neighbours)).toBeLessThan(1e-3);
    });
  });

  it('refuses keys of other shapes and dtypes', () => {
    scope(() => {
      expect(() => keyedUniform(tensor([1]), int64([1]), int64([1]))).toThrow(/int64/);
      expect(() => keyedUniform(int64([1, 2]), int64([1]), int64([1]))).toThrow(/one length/);
    });
  });
});

interface Sampling {
  temperature?: number;
  topK?: number;
  topP?: number;
  minP?: number;
}

/** Draws from one row of logits many times; gives tokens and log-probabilities. */
function draw(
  logits: number[],
  n: number,
  { temperature = 1, topK = 0, topP = 1, minP = 0 }: Sampling = {},
): [Tensor, Tensor] {
  return aten.verlet_sample(
    tensor([logits]).expand(n, logits.length),
    full([n], temperature),
    full([n], topK, { dtype: 'int64' }),
    full([n], topP),
    full([n], minP),
    full([n], 9, { dtype: 'int64' }),
    arange(n),
    full([n], 4, { dtype: 'int64' }),
  );
}

const probabilities = [0.5, 0.2, 0.15, 0.1, 0.05];
const logits = probabilities.map(Math.log);

function frequencies(options: Sampling, n = 40_000): number[] {
  return scope(() =>
    aten
      .bincount(draw(logits, n, options)[0], null, 5)
      .div(n)
      .toArray(),
  );
}

function expectClose(actual: number[], expected: number[]): void {
  // Four standard deviations of a frequency of 40,000 draws are at most 0.01; what has no probability is never drawn.
  actual.forEach((value, k) => {
    if (expected[k] === 0) expect(value).toBe(0);
    expect(Math.abs(value - expected[k]!)).toBeLessThan(0.01);
  });
}

const normalized = (weights: number[]) => weights.map((w) => w / weights.reduce((a, b) => a + b, 0));

describe('sampling', () => {
  it('draws tokens as often as they are likely', () => expectClose(frequencies({}), probabilities));
  it('sharpens with the temperature', () =>
    expectClose(frequencies({ temperature: 0.5 }), normalized(probabilities.map((p) => p * p))));
  it('keeps the k likeliest', () => expectClose(frequencies({ topK: 2 }), normalized([0.5, 0.2, 0, 0, 0])));
  it('keeps the likeliest up to a mass of p', () => {
    expectClose(frequencies({ topP: 0.8 }), normalized([0.5, 0.2, 0.15, 0, 0]));
    expectClose(frequencies({ topP: 0.01 }), [1, 0, 0, 0, 0]);
  });
  it('leaves out what is below a share of the likeliest', () =>
    expectClose(frequencies({ minP: 0.25 }), normalized([0.5, 0.2, 0.15, 0, 0])));
  it('joins top-k and top-p: first k, then the mass within it', () =>
    expectClose(frequencies({ topK: 3, topP: 0.8 }), normalized([0.5, 0.2, 0, 0, 0])));
  it('takes the likeliest at temperature 0', () => expectClose(frequencies({ temperature: 0 }), [1, 0, 0, 0, 0]));

  it('reports the log-probability at that temperature, before anything is left out', () => {
    scope(() => {
      const [tokens, logProbs] = draw(logits, 500, { temperature: 0.7, topK: 3 });
      const expected = tensor([logits]).div(0.7).logSoftmax(-1).flatten().indexSelect(0, tokens);
      expect(logProbs.allclose(expected, { atol: 1e-5 })).toBe(true);
      const [, greedy] = draw(logits, 3, { temperature: 0 });
      expect(greedy.toArray()[0]).toBeCloseTo(Math.log(0.5), 5);
    });
  });

  it('does not depend on who shares the batch', () => {
    scope(() => {
      manualSeed(3);
      const rows = 33;
      const grid = randn([rows, 100]);
      const column = (value: number) => full([rows], value);
      const keys = [full([rows], 1, { dtype: 'int64' }), arange(rows), arange(rows).mul(11)] as const;
      const limits = [column(0.8), full([rows], 20, { dtype: 'int64' }), column(0.9), column(0.01)] as const;
      const [together, logProbs] = aten.verlet_sample(grid, ...limits, ...keys);
      for (const k of [0, 7, 32]) {
        const one = <T extends readonly Tensor[]>(list: T) =>
          list.map((t) => t.narrow(0, k, 1)) as unknown as { [K in keyof T]: Tensor };
        const [alone, logProb] = aten.verlet_sample(grid.narrow(0, k, 1), ...one(limits), ...one(keys));
        expect(alone.item()).toBe(together.select(0, k).item());
        expect(logProb.item()).toBe(logProbs.select(0, k).item());
      }
    });
  });

  it('takes the likeliest number of a row in which something is none, whatever is asked for, and says so', () => {
    const broken = Array.from({ length: 300 }, (_, k) => ((k * 7919) % 300) / 30);
    const likeliest = broken.indexOf(Math.max(...broken));
    for (let k = 1; k < 300; k += 3) if (k !== likeliest) broken[k] = Number.NaN;
    for (const options of [{}, { topP: 0.9 }, { topK: 40 }, { topK: 40, topP: 0.9, minP: 0.01 }])
      scope(() => {
        const [tokens, logProbs] = draw(broken, 20, options);
        expect(tokens.eq(likeliest).all().item()).toBe(1);
        expect(logProbs.isnan().all().item()).toBe(1);
      });
  });

  it('takes 16-bit logits and survives rows of one possible token', () => {
    scope(() => {
      const [tokens] = draw([Number.NEGATIVE_INFINITY, 2, Number.NEGATIVE_INFINITY], 100, { topP: 0.5 });
      expect(tokens.eq(1).all().item()).toBe(1);
      const half = tensor([[0, 50]], { dtype: 'bfloat16' });
      const [token] = aten.verlet_sample(
        half,
        tensor([1]),
        int64([0]),
        tensor([1]),
        tensor([0]),
        int64([0]),
        int64([0]),
        int64([0]),
      );
      expect(token.item()).toBe(1);
    });
  });
});
