import { describe, expect, it } from 'vitest';
import {
  aten,
  backward,
  enableGrad,
  grad,
  isGradEnabled,
  liveTensors,
  manualSeed,
  noGrad,
  ones,
  randn,
  scope,
  type Tensor,
  tensor,
  where,
} from './index.js';

/** Central differences in float64, one element at a time. */
function numericGradient(f: (x: Tensor) => Tensor, at: Tensor): number[] {
  const step = 1e-6;
  const values = at.toFloat64Array();
  const value = (moved: Float64Array) => scope(() => f(tensor(moved, { shape: at.shape })).item());
  return [...values].map((_, k) => {
    const [up, down] = [values.slice(), values.slice()];
    up[k]! += step;
    down[k]! -= step;
    return (value(up) - value(down)) / (2 * step);
  });
}

const functions: Record<string, (x: Tensor) => Tensor> = {
  'mul and sum': (x) => x.mul(x).mul(3).sum(),
  'exp, log, sqrt': (x) => x.square().add(1).log().add(x.exp()).add(x.abs().add(1).sqrt()).sum(),
  'tanh, sigmoid, silu, gelu': (x) => x.tanh().add(x.sigmoid()).add(x.silu()).mul(x.gelu()).sum(),
  matmul: (x) => x.matmul(x.t()).square().sum(),
  'linear with bias': (x) =>
    x
      .linear(x.slice(0, 0, 2), x.select(1, 0).slice(0, 0, 2))
      .square()
      .sum(),
  softmax: (x) => x.softmax(-1).mul(x).sum(),
  'log-softmax and gather': (x) =>
    x
      .logSoftmax(-1)
      .gather(1, tensor([[0], [2], [1]], { dtype: 'int64' }))
      .sum(),
  'layer norm': (x) => aten.layer_norm(x, [4]).pow(3).sum(),
  'rms norm': (x) => aten.rms_norm(x, [4], null, 1e-6).pow(3).sum(),
  'where and clamp': (x) => where(x.gt(0), x.square(), x.mul(2)).add(x.clamp(-0.5, 0.5)).sum(),
  'views and cat': (x) =>
    aten
      .cat([x.transpose(0, 1).reshape(-1), x.slice(1, 1, 3).flatten()])
      .square()
      .mean(),
  'index and index add': (x) =>
    x
      .index(tensor([0, 0, 2], { dtype: 'int64' }))
      .indexAdd(0, tensor([1], { dtype: 'int64' }), x.slice(0, 0, 1))
      .square()
      .sum(),
  embedding: (x) =>
    aten
      .embedding(x, tensor([0, 2, 2], { dtype: 'int64' }))
      .square()
      .sum(),
  'cumsum and logsumexp': (x) => x.cumsum(0).logsumexp(1).sum(),
  attention: (x) => {
    const heads = x.view(1, 1, 3, 4);
    return aten.scaled_dot_product_attention(heads, heads, heads, null, 0, true).square().sum();
  },
  'cross entropy': (x) => aten.cross_entropy_loss(x, tensor([1, 3, 0], { dtype: 'int64' })),
};

describe('gradients', () => {
  for (const [name, f] of Object.entries(functions)) {
    it(`agree with finite differences: ${name}`, () => {
      scope(() => {
        manualSeed(11);
        const x = randn([3, 4], { dtype: 'float64' }).setRequiresGrad();
        const [exact] = grad([f(x)], [x]);
        const numeric = numericGradient(f, x);
        exact!.toArray().forEach((value, k) => {
          expect(Math.abs(value - numeric[k]!)).toBeLessThan(1e-6 * Math.max(1, Math.abs(value)));
        });
      });
      expect(liveTensors().count).toBe(0);
    });
  }

  it('accumulate in .grad until they are cleared', () => {
    scope(() => {
      const x = tensor([1, 2]).setRequiresGrad();
      expect(x.grad).toBeNull();
      x.square().sum().backward();
      x.square().sum().backward();
      expect(x.grad!.toArray()).toEqual([4, 8]);
      x.setGrad(null);
      expect(x.grad).toBeNull();
      backward([x.mul(2), x.mul(3)], [tensor([1, 0]), tensor([0, 1])]);
      expect(x.grad!.toArray()).toEqual([2, 3]);
    });
  });

  it('take gradients of outputs, of several inputs, unused ones and second order', () => {
    scope(() => {
      const [x, y, z] = [tensor([2]), tensor([3]), tensor([4])].map((t) => t.setRequiresGrad()) as [
        Tensor,
        Tensor,
        Tensor,
      ];
      const [dx, dy] = grad([x.mul(y)], [x, y], [tensor([10])]);
      expect([dx!.item(), dy!.item()]).toEqual([30, 20]);
      expect(grad([x.mul(y)], [x, z], [], { allowUnused: true })[1]).toBeNull();
      expect(() => grad([x.mul(y)], [z])).toThrow(/not have been used in the graph/);
      const [first] = grad([x.pow(3)], [x], [], { createGraph: true });
      const [second] = grad([first!], [x]);
      expect([first!.item(), second!.item()]).toEqual([12, 12]);
      const output = x.square();
      grad([output], [x], [], { retainGraph: true });
      grad([output], [x]);
      expect(() => grad([output], [x])).toThrow(/second time/);
    });
  });

  it('are not recorded inside noGrad, whatever happens there', () => {
    scope(() => {
      const x = tensor([1]).setRequiresGrad();
      noGrad(() => {
        expect(isGradEnabled()).toBe(false);
        expect(x.mul(2).requiresGrad).toBe(false);
        enableGrad(() => expect(x.mul(2).requiresGrad).toBe(true));
        x.add_(1);
      });
      expect(isGradEnabled()).toBe(true);
      expect(() => noGrad(() => x.matmul(ones([3, 3])))).toThrow();
      expect(isGradEnabled()).toBe(true);
      expect(() => noGrad(() => Promise.resolve(1))).toThrow(/synchronous/);
      expect(x.mul(2).requiresGrad).toBe(true);
      expect(x.detach().requiresGrad).toBe(false);
      expect([x.isLeaf, x.mul(2).isLeaf]).toEqual([true, false]);
      expect(() => x.add_(1)).toThrow(/leaf/);
    });
  });

  it('name what cannot be differentiated', () => {
    scope(() => {
      expect(() => tensor([1], { dtype: 'int64' }).setRequiresGrad()).toThrow(/floating/);
      expect(() => ones([2]).setRequiresGrad().mul(2).backward()).toThrow(/scalar/);
    });
  });
});
