import { aten, grad, manualSeed, nn, randn, scope, type Tensor } from '@verlet/torch';
import { describe, expect, it } from 'vitest';
import { TOP_K_DIVERGENCES, topKDivergence } from './distillation.js';

const [tokens, vocabulary, temperature] = [7, 23, 1.5];

/** Hidden states and vocabulary heads of a student and of a larger teacher. */
function models() {
  manualSeed(3);
  return {
    student: { hidden: randn([tokens, 5]), weight: randn([vocabulary, 5]) },
    teacher: { hidden: randn([tokens, 8]), weight: randn([vocabulary, 8]) },
    targets: nn.indexTensor(Array.from({ length: tokens }, (_, k) => (5 * k) % vocabulary)),
  };
}
type Head = ReturnType<typeof models>['student'];

const distribution = ({ hidden, weight }: Head): Tensor => hidden.matmul(weight.t()).div(temperature).logSoftmax(-1);
const likeliest = ({ hidden, weight }: Head, count: number) =>
  nn.topLogProbs(hidden, weight, count, { temperature, chunkTokens: 3 });

function rowsOf(matrix: Tensor): number[][] {
  const values = Array.from(matrix.toFloat32Array());
  const width = matrix.size(1);
  return Array.from({ length: matrix.size(0) }, (_, row) => values.slice(row * width, (row + 1) * width));
}

/** KL(a || b), with plain numbers. */
function kullbackLeibler(a: readonly number[], b: readonly number[]): number {
  return a.reduce((sum, p, k) => sum + (p > 0 ? p * (Math.log(p) - Math.log(b[k]!)) : 0), 0);
}

/** The named tokens apart, all others as one. */
function withTail(p: readonly number[], ids: readonly number[]): number[] {
  const named = ids.map((id) => p[id]!);
  return [...named, 1 - named.reduce((sum, value) => sum + value, 0)];
}

describe("divergences over the teacher's likeliest tokens", () => {
  it.each(TOP_K_DIVERGENCES)('%s is what a direct computation gives', (mode) => {
    scope(() => {
      const { student, teacher } = models();
      const { ids, logProbs } = likeliest(teacher, 4);
      const given = topKDivergence(distribution(student).gather(1, ids), logProbs, { mode }).toFloat32Array();
      const rows = (head: Head) => rowsOf(distribution(head).exp());
      const [q, p, named] = [rows(student), rows(teacher), rowsOf(ids.to('float32'))];
      for (let row = 0; row < tokens; row++) {
        const order = p[row]!.map((_, id) => id).sort((a, b) => p[row]![b]! - p[row]![a]!);
        expect(named[row]).toEqual(order.slice(0, 4));
        const [ownQ, ownP] = [withTail(q[row]!, order.slice(0, 4)), withTail(p[row]!, order.slice(0, 4))];
        const expected = {
          forward_kl_topk: kullbackLeibler(ownP.slice(0, -1), ownQ),
          forward_kl_topk_tail: kullbackLeibler(ownP, ownQ),
          reverse_kl_topk_tail: kullbackLeibler(ownQ, ownP),
        }[mode];
        expect(given[row]).toBeCloseTo(expected, 4);
      }
    });
  });

  it.each(TOP_K_DIVERGENCES)('%s over the whole vocabulary is the KL', (mode) => {
    scope(() => {
      const { student, teacher } = models();
      const { ids, logProbs } = likeliest(teacher, 1000);
      const given = topKDivergence(distribution(student).gather(1, ids), logProbs, { mode }).toFloat32Array();
      const rows = (head: Head) => rowsOf(distribution(head).exp());
      const [q, p] = [rows(student), rows(teacher)];
      for (let row = 0; row < tokens; row++) {
        const [a, b] = mode.startsWith('forward') ? [p, q] : [q, p];
        expect(given[row]).toBeCloseTo(kullbackLeibler(a[row]!, b[row]!), 4);
      }
    });
  });

  it('cuts log-probabilities and divergences where asked', () => {
    scope(() => {
      const { student, teacher } = models();
      const { ids, logProbs } = likeliest(teacher, 4);
      const own = distribution(student).gather(1, ids);
      const options = { mode: 'forward_kl_topk' } as const;
      const values = (more: object) => topKDivergence(own, logProbs, { ...options, ...more }).toFloat32Array();
      expect(Math.max(...values({ lossMaxClamp: 0.5 }))).toBe(0.5);
      expect(values({ logProbMinClamp: 0 }).every((value) => value === 0)).toBe(true);
      expect(Math.max(...values({ logProbMinClamp: -2 }))).toBeLessThan(Math.max(...values({})));
    });
  });

  it.each([
    ['logits kept', {}],
    ['logits computed again', { keepBytes: 0, chunkTokens: 3 }],
  ])('the head gives the gradient that autograd gives, %s', (_, more) => {
    scope(() => {
      const { student, teacher, targets } = models();
      const { ids, logProbs: teacherLog } = likeliest(teacher, 4);
      const lossOf = (logProbs: Tensor, entropy: Tensor, others: Tensor) =>
        topKDivergence(others, teacherLog, { mode: 'reverse_kl_topk_tail' })
          .sum()
          .sub(logProbs.mul(0.3).sum())
          .add(entropy.mul(0.1).sum());

      const [hidden, weight] = [student.hidden.clone().setRequiresGrad(), student.weight.clone().setRequiresGrad()];
      const plain = distribution({ hidden, weight });
      const picked = plain.gather(1, targets.unsqueeze(1)).squeeze(1);
      const expected = grad(
        [lossOf(picked, plain.exp().mul(plain).sum(-1).neg(), plain.gather(1, ids))],
        [hidden, weight],
      );

      const parameter = new nn.Parameter(student.weight.clone());
      const head = new nn.LogProbHead(student.hidden, parameter, targets, {
        temperature,
        entropy: true,
        alternatives: ids,
        train: true,
        ...more,
      });
      const [own, entropy, others] = [head.result.logProbs, head.result.entropy!, head.result.alternatives!].map(
        (value) => value.detach().setRequiresGrad(),
      );
      const slopes = grad([lossOf(own!, entropy!, others!)], [own!, entropy!, others!]);
      const gradHidden = head.backward(slopes[0]!, slopes[1]!, parameter, slopes[2]!);
      const gap = (a: Tensor, b: Tensor): number => aten.abs(a.sub(b)).max().item();
      expect(gap(others!.detach(), plain.detach().gather(1, ids))).toBeLessThan(1e-5);
      expect(gap(gradHidden, expected[0]!)).toBeLessThan(1e-5);
      expect(gap(parameter.gradient!, expected[1]!)).toBeLessThan(1e-5);
    });
  });
});
