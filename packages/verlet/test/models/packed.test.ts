/** Packing changes nothing: sequences laid end to end give what each gives alone, on every attention path of the CPU. */
import { aten, grad, manualSeed, nn, noGrad, randn, scope, type Tensor } from '@verlet/torch';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createCausalLM, PackedAttention } from '../../src/models/index.js';
import { maxDifference, packedLogits } from './fixture.js';

const shape = {
  vocab_size: 23,
  hidden_size: 16,
  intermediate_size: 24,
  num_hidden_layers: 2,
  num_attention_heads: 4,
  num_key_value_heads: 2,
  initializer_range: 0.3,
  max_position_embeddings: 64,
};

const lengths = fc.array(fc.oneof(fc.integer({ min: 1, max: 6 }), fc.integer({ min: 1, max: 70 })), {
  minLength: 1,
  maxLength: 12,
});

describe.each([
  ['qwen2', {}],
  ['qwen3', { head_dim: 8 }],
  ['mistral', { sliding_window: 5 }],
])('%s', (modelType, extra) => {
  it('gives packed sequences the logits that each has alone', () => {
    manualSeed(1);
    const model = createCausalLM({ ...shape, model_type: modelType, ...extra });
    fc.assert(
      fc.property(lengths, fc.integer(), (counts, seed) =>
        scope(() => {
          const rows = counts.map((count, k) =>
            Array.from({ length: count }, (_, at) => Math.abs((seed % 1009) + 31 * k + at * at * 7) % shape.vocab_size),
          );
          const packed = packedLogits(model, rows);
          let start = 0;
          for (const row of rows) {
            const alone = packedLogits(model, [row]);
            expect(maxDifference(packed.narrow(0, start, row.length), alone)).toBeLessThan(2e-5);
            start += row.length;
          }
        }),
      ),
      { numRuns: 15 },
    );
    model.dispose();
  });
});

/** Attention written out: every pair of tokens, masked. */
function plainAttention(q: Tensor, k: Tensor, v: Tensor, counts: readonly number[], window: number | null): Tensor {
  const group = q.size(1) / k.size(1);
  const sequence = counts.flatMap((count, s) => new Array<number>(count).fill(s));
  const allowed = sequence.flatMap((own, i) =>
    sequence.map((other, j) => (own === other && j <= i && (window === null || i - j < window) ? 1 : 0)),
  );
  const mask = nn.indexTensor(allowed).reshape(sequence.length, sequence.length).eq(0).unsqueeze(0);
  const heads = (x: Tensor, repeat: number) => aten.repeat_interleave_self_int(x.transpose(0, 1), repeat, 0);
  const scores = heads(q, 1)
    .matmul(heads(k, group).transpose(1, 2))
    .mul(q.size(2) ** -0.5);
  const weights = scores.maskedFill(mask, Number.NEGATIVE_INFINITY).softmax(-1);
  return weights.matmul(heads(v, group)).transpose(0, 1).reshape(q.size(0), -1);
}

describe('packed attention', () => {
  it.each([
    { counts: [300, 7, 299, 1], heads: 4, kvHeads: 2, window: null },
    { counts: [300, 7, 299, 1], heads: 4, kvHeads: 2, window: 50 },
    { counts: [64, 64, 64], heads: 3, kvHeads: 1, window: null },
    { counts: [700], heads: 2, kvHeads: 2, window: 33 },
    { counts: [5, 0, 3], heads: 2, kvHeads: 1, window: 2 },
  ])('equals attention written out, forward and backward: %o', ({ counts, heads, kvHeads, window }) => {
    manualSeed(2);
    const tokens = counts.reduce((sum, count) => sum + count, 0);
    scope(() => {
      const [q, k, v] = [heads, kvHeads, kvHeads].map((n) => randn([tokens, n, 8]).setRequiresGrad());
      const weights = randn([tokens, heads * 8]);
      const context = new PackedAttention(counts);
      const results = [context.attend(0, q!, k!, v!, window), plainAttention(q!, k!, v!, counts, window)];
      expect(maxDifference(results[0]!.detach(), results[1]!.detach())).toBeLessThan(1e-5);
      const [own, plain] = results.map((result) => grad([result], [q!, k!, v!], [weights]));
      for (const [n, gradient] of own!.entries()) expect(maxDifference(gradient!, plain![n]!)).toBeLessThan(2e-5);
      context.dispose();
    });
  });

  it('keeps the rotary table right when it grows past what the config names', () => {
    manualSeed(3);
    const config = { ...shape, model_type: 'llama', max_position_embeddings: 32 };
    const model = createCausalLM(config);
    const row = Array.from({ length: 600 }, (_, k) => (k * k + 3) % shape.vocab_size);
    const short = noGrad(() => packedLogits(model, [row.slice(0, 40)]));
    model.model.reservePositions(700);
    const long = packedLogits(model, [row]);
    expect(maxDifference(long.narrow(0, 0, 40), short)).toBeLessThan(1e-5);
    model.dispose();
  });
});
