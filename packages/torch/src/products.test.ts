/** The CPU's own products: right for every shape, and a row's result depends on the row alone. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { aten, getThreads, grad, manualSeed, noGrad, randn, scope, setThreads, type Tensor } from './index.js';

function difference(a: Tensor, b: Tensor): number {
  return scope(() => a.detach().to('float64').sub(b.detach().to('float64')).abs().max().item());
}

const shape = fc.record({
  rows: fc.integer({ min: 1, max: 230 }),
  inner: fc.integer({ min: 1, max: 90 }),
  columns: fc.integer({ min: 1, max: 150 }),
  bias: fc.boolean(),
});

describe('linear', () => {
  it('equals its formula in double precision, both ways, for shapes of every kind', () => {
    fc.assert(
      fc.property(shape, ({ rows, inner, columns, bias }) =>
        scope(() => {
          manualSeed(rows * 1000 + inner);
          const inputs = [randn([rows, inner]), randn([columns, inner]), ...(bias ? [randn([columns])] : [])];
          const own = inputs.map((x) => x.clone().setRequiresGrad());
          const wide = inputs.map((x) => x.to('float64').setRequiresGrad());
          const got = aten.verlet_linear(own[0]!, own[1]!, own[2] ?? null);
          const wanted = aten.linear(wide[0]!, wide[1]!, wide[2] ?? null);
          const outer = randn([rows, columns]);
          const gradients = grad([got], own, [outer]);
          const expected = grad([wanted], wide, [outer.to('float64')]);
          expect(difference(got, wanted)).toBeLessThan(2e-4);
          for (const [k, gradient] of gradients.entries())
            expect(difference(gradient!, expected[k]!)).toBeLessThan(4e-4);
        }),
      ),
      { numRuns: 60 },
    );
  });

  it('sums thousands of terms in blocks', () => {
    manualSeed(4);
    const [x, weight] = [randn([50, 2600]), randn([70, 2600])];
    expect(difference(aten.verlet_linear(x, weight), aten.linear(x.to('float64'), weight.to('float64')))).toBeLessThan(
      2e-3,
    );
    const tall = randn([1500, 40]);
    const other = randn([1500, 1100]);
    expect(
      difference(aten.verlet_turned_product(tall, other), tall.to('float64').t().mm(other.to('float64'))),
    ).toBeLessThan(2e-3);
  });

  it('refuses factors of different numbers of terms', () => {
    expect(() => aten.verlet_turned_product(randn([20, 16]), randn([19, 16]))).toThrow(/as many rows/);
  });

  it('reads slices and transposed weights as they lie, and keeps leading dimensions', () => {
    manualSeed(5);
    const x = randn([4, 30, 64]).narrow(2, 8, 40);
    const weight = randn([40, 96]).t();
    const got = aten.verlet_linear(x, weight);
    expect(got.shape).toEqual([4, 30, 96]);
    expect(difference(got, aten.linear(x.to('float64'), weight.to('float64')))).toBeLessThan(2e-4);
  });

  it('leaves other types and frozen weights to what they are', () => {
    const x = randn([20, 32]).to('bfloat16');
    expect(aten.verlet_linear(x, randn([48, 32]).to('bfloat16')).dtype).toBe('bfloat16');
    const frozen = randn([48, 32]);
    const input = randn([20, 32]).setRequiresGrad();
    const [gradient] = grad([aten.verlet_linear(input, frozen)], [input], [randn([20, 48])]);
    expect(gradient!.shape).toEqual([20, 32]);
  });

  it('does not depend on the rows beside it, nor on the threads', () => {
    manualSeed(6);
    const [x, weight] = [randn([200, 96]), randn([288, 96])];
    const threads = getThreads();
    noGrad(() => {
      const whole = aten.verlet_linear(x, weight);
      for (const [start, count] of [
        [0, 8],
        [13, 61],
        [150, 50],
      ] as const)
        expect(
          aten.verlet_linear(x.narrow(0, start, count), weight).equal(whole.narrow(0, start, count)),
          `rows ${start} to ${start + count}`,
        ).toBe(true);
      const turned = aten.verlet_turned_product(whole, x);
      try {
        setThreads(3);
        expect(aten.verlet_linear(x, weight).equal(whole)).toBe(true);
        expect(aten.verlet_turned_product(whole, x).equal(turned)).toBe(true);
      } finally {
        setThreads(threads);
      }
    });
  });
});

describe('log-probs of chosen tokens', () => {
  it.each([1, 16, 61, 1000])('and their gradients over a vocabulary of %i', (vocabulary) => {
    manualSeed(8);
    const tokens = 37;
    const logits = randn([tokens, vocabulary]).mul(4);
    const targets = aten.randint_low(0, vocabulary, [tokens], 'int64');
    const [outer, inner] = [randn([tokens]), randn([tokens])];
    const scale = 0.7;
    const wide = logits.to('float64').setRequiresGrad();
    const logs = wide.mul(scale).logSoftmax(-1);
    const chosen = logs.gather(1, targets.unsqueeze(1)).squeeze(1);
    const spread = logs.exp().mul(logs).sum(-1).neg();
    const [logProb, normalizer, entropy, squares] = aten.verlet_token_log_probs(logits, targets, scale);
    expect(difference(logProb, chosen)).toBeLessThan(1e-5);
    expect(difference(entropy, spread)).toBeLessThan(1e-5);
    expect(difference(squares, logs.exp().square().sum(-1))).toBeLessThan(1e-5);
    const [wanted] = grad([chosen, spread], [wide], [outer.to('float64'), inner.to('float64')]);
    const got = aten.verlet_token_log_probs_backward_(
      logits.clone(),
      targets,
      normalizer,
      entropy,
      outer,
      inner,
      scale,
    );
    expect(difference(got, wanted!)).toBeLessThan(1e-5);
  });

  it('refuses a target that is no token', () => {
    const targets = aten.full([2], 9, 'int64');
    expect(() => aten.verlet_token_log_probs(randn([2, 8]), targets, 1)).toThrow(
      /target 9 is not in the vocabulary of 8/,
    );
  });

  it('takes banned tokens for what they are', () => {
    const logits = randn([1, 20]);
    logits.select(0, 0).narrow(0, 3, 4).fill_(Number.NEGATIVE_INFINITY);
    const [logProb, , entropy] = aten.verlet_token_log_probs(logits, aten.full([1], 1, 'int64'), 1);
    const logs = logits.to('float64').logSoftmax(-1);
    expect(logProb.item()).toBeCloseTo(logs.select(0, 0).select(0, 1).item(), 5);
    const counted = logs.exp().mul(logs.clamp(-1e4)).sum().neg();
    expect(entropy.item()).toBeCloseTo(counted.item(), 5);
  });
});
