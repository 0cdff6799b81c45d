/** Attention of packed sequences, some of which go on from a shared one, against its formula in double precision. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { aten, getThreads, grad, manualSeed, noGrad, randn, scope, setThreads, type Tensor, tensor } from './index.js';

interface Sequences {
  lengths: number[];
  prefixes: number[];
}

/** Prompts with their answers, some before, some behind the answers of others. */
const sequences: fc.Arbitrary<Sequences> = fc
  .array(
    fc.record({
      prompt: fc.oneof(fc.integer({ min: 1, max: 5 }), fc.integer({ min: 1, max: 150 })),
      answers: fc.array(fc.oneof(fc.integer({ min: 0, max: 5 }), fc.integer({ min: 0, max: 150 })), { maxLength: 4 }),
    }),
    { minLength: 1, maxLength: 3 },
  )
  .chain((groups) => fc.record({ groups: fc.constant(groups), promptsFirst: fc.boolean() }))
  .map(({ groups, promptsFirst }) => {
    const lengths: number[] = promptsFirst ? groups.map(({ prompt }) => prompt) : [];
    const prefixes: number[] = lengths.map(() => -1);
    for (const [k, { prompt, answers }] of groups.entries()) {
      if (!promptsFirst) prefixes[lengths.push(prompt) - 1] = -1;
      const own = promptsFirst ? k : lengths.length - 1;
      for (const answer of answers) prefixes[lengths.push(answer) - 1] = own;
    }
    return { lengths, prefixes };
  });

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);

/** Every pair of tokens, masked. */
function written(q: Tensor, k: Tensor, v: Tensor, { lengths, prefixes }: Sequences, window: number): Tensor {
  const tokens = lengths.flatMap((length, sequence) => {
    const first = lengths[prefixes[sequence]!] ?? 0;
    return Array.from({ length }, (_, at) => ({ sequence, position: first + at }));
  });
  const hidden = tokens.flatMap((query) =>
    tokens.map((key) => {
      const isOf = key.sequence === query.sequence || key.sequence === prefixes[query.sequence];
      const back = query.position - key.position;
      return isOf && back >= 0 && (window === 0 || back < window) ? 0 : 1;
    }),
  );
  const mask = tensor(Uint8Array.from(hidden)).reshape(1, tokens.length, tokens.length).ne(0);
  const heads = (x: Tensor): Tensor => aten.repeat_interleave_self_int(x.transpose(0, 1), q.size(1) / x.size(1), 0);
  const scores = heads(q)
    .matmul(heads(k).transpose(1, 2))
    .mul(q.size(2) ** -0.5);
  return scores.maskedFill(mask, Number.NEGATIVE_INFINITY).softmax(-1).matmul(heads(v)).transpose(0, 1);
}

function inputs(tokens: number, heads: number, kvHeads: number): [Tensor, Tensor, Tensor] {
  return [heads, kvHeads, kvHeads].map((count) => randn([tokens, count, 8])) as [Tensor, Tensor, Tensor];
}

function attend(parts: readonly Tensor[], { lengths, prefixes }: Sequences, window: number): Tensor {
  const [q, k, v] = parts as [Tensor, Tensor, Tensor];
  return aten.verlet_packed_attention(q, k, v, lengths, 8 ** -0.5, window, prefixes)[0];
}

const difference = (a: Tensor, b: Tensor): number =>
  scope(() => (a.numel === 0 ? 0 : a.detach().to('float64').sub(b.detach().to('float64')).abs().max().item()));

describe('packed attention of sequences that go on from shared ones', () => {
  it('equals its formula, and so do its gradients', () => {
    fc.assert(
      fc.property(
        sequences,
        fc.constantFrom([1, 1], [4, 2], [3, 1], [2, 2]),
        fc.constantFrom(0, 1, 4, 40, 100),
        fc.nat(1000),
        (layout, [heads, kvHeads], window, seed) =>
          scope(() => {
            manualSeed(seed);
            const plain = inputs(sum(layout.lengths), heads!, kvHeads!);
            const own = plain.map((x) => x.clone().setRequiresGrad());
            const wide = plain.map((x) => x.to('float64').setRequiresGrad()) as [Tensor, Tensor, Tensor];
            const [got, wanted] = [attend(own, layout, window), written(...wide, layout, window)];
            expect(difference(got, wanted)).toBeLessThan(1e-5);
            const outer = randn(got.shape);
            const expected = grad([wanted], wide, [outer.to('float64')]);
            for (const [k, gradient] of grad([got], own, [outer]).entries())
              expect(difference(gradient!, expected[k]!)).toBeLessThan(1e-4);
          }),
      ),
      { numRuns: 40 },
    );
  });

  it('has the gradients that small steps show', () => {
    scope(() => {
      manualSeed(4);
      const layout = { lengths: [70, 3, 66, 0, 5, 2], prefixes: [-1, 0, 0, 0, -1, 4] };
      const tokens = sum(layout.lengths);
      const point = inputs(tokens, 4, 2).map((x) => x.setRequiresGrad());
      const outer = randn([tokens, 4, 8]);
      const gradients = grad([attend(point, layout, 0)], point, [outer]);
      for (const [k, gradient] of gradients.entries()) {
        const direction = randn(gradient!.shape);
        const value = (step: number): number =>
          noGrad(() => {
            const moved = point.map((x, n) => (n === k ? x.detach().add(direction.mul(step)) : x.detach()));
            return attend(moved, layout, 0).to('float64').mul(outer.to('float64')).sum().item();
          });
        const slope = (value(5e-3) - value(-5e-3)) / 1e-2;
        const expected = gradient!.mul(direction).sum().item();
        expect(Math.abs(slope - expected)).toBeLessThan(2e-3 * (1 + Math.abs(expected)));
      }
    });
  });

  it('is the same to the last bit on one thread and on several', () => {
    const threads = getThreads();
    scope(() => {
      manualSeed(5);
      const layout = { lengths: [190, 70, 10, 130, 64, 200], prefixes: [-1, 0, 0, 0, 0, -1] };
      const parts = inputs(sum(layout.lengths), 4, 2).map((x) => x.setRequiresGrad());
      const outer = randn([sum(layout.lengths), 4, 8]);
      const results = [1, 2, 3].map((count) => {
        setThreads(count);
        const output = attend(parts, layout, 0);
        return [output.detach(), ...grad([output], parts, [outer])] as Tensor[];
      });
      for (const other of results.slice(1))
        for (const [k, value] of other.entries()) expect(value.equal(results[0]![k]!)).toBe(true);
    });
    setThreads(threads);
  });

  it('refuses what cannot be: a prefix behind its sequence, of a sequence that has one, too few of them', () => {
    scope(() => {
      const parts = inputs(6, 2, 1);
      const by = (prefixes: number[]) => () => attend(parts, { lengths: [2, 2, 2], prefixes }, 0);
      expect(by([1, -1, -1])).toThrow(/sequence 0 cannot go on from 1/);
      expect(by([-1, 0, 1])).toThrow(/sequence 2 cannot go on from 1/);
      expect(by([-1, 0])).toThrow(/3 lengths and 2 prefixes/);
    });
  });
});
