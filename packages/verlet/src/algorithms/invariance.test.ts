/** A loss must not depend on how a mini-batch was cut into micro-batches and dealt to ranks. */
import { grad, type Tensor, tensor } from '@verlet/torch';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { aggLoss } from './aggregate.js';
import { policyLoss } from './policy-losses/index.js';
import type { GlobalCounts, LossAggMode, PolicyLossConfig } from './types.js';
import { valueLoss } from './value-loss.js';

const modes: LossAggMode[] = [
  'token-mean',
  'token-sum',
  'seq-mean-token-sum',
  'seq-mean-token-sum-norm',
  'seq-mean-token-mean',
];

interface Row {
  mask: number[];
  old: number[];
  now: number[];
  advantage: number;
  place: { rank: number; micro: number };
}

interface Case {
  ranks: number;
  rows: Row[];
}

const width = 4;
const numbers = (min: number, max: number) =>
  fc.array(fc.double({ min, max, noNaN: true }), { minLength: width, maxLength: width });

const cases: fc.Arbitrary<Case> = fc.integer({ min: 1, max: 4 }).chain((ranks) =>
  fc.record({
    ranks: fc.constant(ranks),
    rows: fc.array(
      fc.record({
        mask: fc.array(fc.integer({ min: 0, max: 1 }), { minLength: width, maxLength: width }),
        old: numbers(-3, -0.1),
        now: numbers(-3, -0.1),
        advantage: fc.double({ min: -2, max: 2, noNaN: true }),
        place: fc.record({ rank: fc.integer({ min: 0, max: ranks - 1 }), micro: fc.integer({ min: 0, max: 2 }) }),
      }),
      { minLength: 1, maxLength: 7 },
    ),
  }),
);

/** Loss and its gradient per row of a set of rows. */
type Evaluate = (rows: readonly Row[], counts: GlobalCounts) => { loss: number; gradient: number[][] };

function globalCounts(rows: readonly Row[], dpSize: number): GlobalCounts {
  return {
    dpSize,
    batchNumTokens: rows.flatMap((row) => row.mask).reduce((a, b) => a + b, 0),
    globalBatchSize: rows.filter((row) => row.mask.includes(1)).length,
  };
}

function expectInvariant(evaluate: Evaluate): void {
  fc.assert(
    fc.property(cases, ({ ranks, rows }) => {
      const whole = evaluate(rows, globalCounts(rows, 1));
      const counts = globalCounts(rows, ranks);
      const gradient: number[][] = rows.map(() => []);
      let loss = 0;
      const cut = new Map<string, number[]>();
      for (const [k, { place }] of rows.entries())
        cut.set(`${place.rank}/${place.micro}`, [...(cut.get(`${place.rank}/${place.micro}`) ?? []), k]);
      for (const part of cut.values()) {
        const own = evaluate(
          part.map((k) => rows[k]!),
          counts,
        );
        // Ranks average their gradients, micro-batches of a rank add up.
        loss += own.loss / ranks;
        for (const [place, k] of part.entries()) gradient[k] = own.gradient[place]!.map((value) => value / ranks);
      }
      expect(loss).toBeCloseTo(whole.loss, 8);
      for (const [k, row] of whole.gradient.entries())
        for (const [t, value] of row.entries()) expect(gradient[k]![t]).toBeCloseTo(value, 8);
    }),
    { numRuns: 25 },
  );
}

const double = (values: number[][]): Tensor => tensor(values, { dtype: 'float64' });

function evaluated(rows: readonly Row[], run: (leaf: Tensor, mask: Tensor, old: Tensor) => Tensor) {
  const leaf = double(rows.map((row) => row.now)).setRequiresGrad();
  const loss = run(leaf, double(rows.map((row) => row.mask)), double(rows.map((row) => row.old)));
  return { loss: loss.item(), gradient: grad([loss], [leaf])[0]!.toNested() as number[][] };
}

function config(lossMode: string): PolicyLossConfig {
  return {
    clip_ratio: 0.2,
    tau_pos: 1,
    tau_neg: 1.05,
    policy_loss: {
      loss_mode: lossMode,
      clip_cov_ratio: 0.1,
      clip_cov_lb: 0,
      clip_cov_ub: 5,
      kl_cov_ratio: 0.1,
      ppo_kl_coef: 0.1,
      dro_beta: 0.4,
    },
  };
}

describe('every aggregation', () => {
  test.each(modes)('%s', (mode) => {
    expectInvariant((rows, counts) => evaluated(rows, (leaf, mask) => aggLoss(leaf.square(), mask, mode, counts)));
  });

  test.each(modes)('value loss, %s', (lossAggMode) => {
    expectInvariant((rows, counts) =>
      evaluated(
        rows,
        (vpreds, responseMask, values) =>
          valueLoss({
            vpreds,
            values,
            returns: values.add(0.3),
            responseMask,
            cliprangeValue: 0.5,
            lossAggMode,
            counts,
          }).loss,
      ),
    );
  });
});

// clip_cov and kl_cov choose tokens within what they are given and are not invariant, in verl neither.
describe('every policy loss that looks at one row at a time', () => {
  test.each(['vanilla', 'gspo', 'sapo', 'gpg', 'geo_mean', 'cispo', 'dppo_tv', 'dppo_kl', 'dro', 'bypass_mode'])(
    '%s',
    (name) => {
      expectInvariant((rows, counts) =>
        evaluated(
          rows,
          (logProb, responseMask, oldLogProb) =>
            policyLoss({
              oldLogProb,
              logProb,
              advantages: double(rows.map((row) => row.mask.map(() => row.advantage))),
              responseMask,
              lossAggMode: 'seq-mean-token-sum',
              counts,
              config: config(name),
              rolloutCorrection: { rollout_is: 'sequence', loss_type: 'reinforce' },
            }).loss,
        ),
      );
    },
  );
});

test('more ranks without global counts is an error, not a wrong number', () => {
  const counts = { dpSize: 2, batchNumTokens: null, globalBatchSize: null };
  const ones = double([[1, 1]]);
  expect(() => aggLoss(ones, ones, 'token-mean', counts)).toThrow(/batchNumTokens.*required with dpSize 2/);
  expect(() => aggLoss(ones, ones, 'seq-mean-token-mean', counts)).toThrow(/globalBatchSize/);
  expect(() => aggLoss(ones, ones, 'mean' as 'token-mean', counts)).toThrow(/unknown loss_agg_mode 'mean'; known/);
});

test('a mini-batch without tokens has loss 0, and NaN outside the mask stays outside', () => {
  const counts = { dpSize: 1, batchNumTokens: null, globalBatchSize: null };
  const values = double([
    [1, Number.NaN],
    [2, 3],
  ]);
  const none = values.mul(0).isnan().to('float64').mul(0);
  const known = values.isfinite().to('float64');
  for (const mode of modes) {
    expect(aggLoss(values, none, mode, counts).item()).toBe(0);
    expect(aggLoss(values, known, mode, counts).item()).toBeGreaterThan(0);
  }
});
