import { describe, expect, it } from 'vitest';
import { aten, liveTensors, manualSeed, nn, noGrad, randint, randn, scope, type Tensor, tensor } from '../index.js';

class Block extends nn.Module {
  readonly norm = new nn.RMSNorm(8);
  readonly up = new nn.Linear(8, 16);
  readonly down = new nn.Linear(16, 8, { bias: false });
  forward(x: Tensor): Tensor {
    return x.add(this.down.forward(this.up.forward(this.norm.forward(x)).silu()));
  }
}

const maxDifference = (a: Tensor, b: Tensor): number => a.sub(b).abs().max().item();

describe('modules', () => {
  it('names parameters by dotted paths and round-trips a state dict', () => {
    class Net extends nn.Module {
      readonly blocks = [new Block(), new Block()];
    }
    const a = new Net();
    const b = new Net();
    expect([...a.namedParameters()].map(([name]) => name).slice(0, 3)).toEqual([
      'blocks.0.norm.weight',
      'blocks.0.up.weight',
      'blocks.0.up.bias',
    ]);
    b.loadStateDict(a.stateDict());
    const x = randn([3, 8]);
    expect(a.blocks[1]!.forward(x).equal(b.blocks[1]!.forward(x))).toBe(true);
    const broken = a.stateDict();
    broken.delete('blocks.0.norm.weight');
    broken.set('blocks.0.up.bias', tensor([1]));
    broken.set('extra', tensor([1]));
    expect(() => b.loadStateDict(broken)).toThrow(/missing: blocks.0.norm.weight.*up.bias.*\[16\].*\[1\].*extra/s);
  });
});

describe('parameters', () => {
  it.each(['float32', 'bfloat16'] as const)('sum products and rows in float32: %s', (dtype) => {
    manualSeed(6);
    const weight = new nn.Parameter(randn([4, 3]).to(dtype));
    const [a, b, rows] = [randn([5, 4]).to(dtype), randn([5, 3]).to(dtype), randn([3, 3]).to(dtype)];
    weight.accumulateProduct(a, b);
    weight.accumulateProduct(a, b);
    weight.accumulateRows(nn.indexTensor([1, 3, 1]), rows);
    const product = a.to('float32').t().mm(b.to('float32')).mul(2);
    const wanted = product.indexAdd(0, nn.indexTensor([1, 3, 1]), rows.to('float32'));
    expect(weight.gradient!.dtype).toBe('float32');
    expect(maxDifference(weight.gradient!, wanted)).toBeLessThan(dtype === 'float32' ? 1e-6 : 0.1);
    weight.clearGradient();
    weight.accumulateRows(nn.indexTensor([2, 2]), rows.narrow(0, 0, 2));
    expect(weight.gradient!.select(0, 0).abs().max().item()).toBe(0);
    expect(maxDifference(weight.gradient!.select(0, 2), rows.narrow(0, 0, 2).to('float32').sum(0))).toBeLessThan(1e-5);
  });
});

describe('log-prob head', () => {
  it.each([
    { chunkTokens: 3, keepBytes: 0 },
    { chunkTokens: 3 },
    { chunkTokens: 3, keepBytes: 2 * 3 * 17 * 4 },
    { chunkTokens: 1000 },
    { chunkTokens: 4, temperature: 0.7 },
  ])('equals the plain softmax in value and gradient: %o', (options) => {
    manualSeed(5);
    const [tokens, features, vocabulary] = [10, 6, 17];
    const hidden = randn([tokens, features]);
    const weight = new nn.Parameter(randn([vocabulary, features]));
    const targets = randint(0, vocabulary, [tokens]);
    const gradLogProbs = randn([tokens]);
    const gradEntropy = randn([tokens]);

    const leaf = hidden.clone().setRequiresGrad();
    const logits = aten.linear(leaf, weight).div(options.temperature ?? 1);
    const logs = logits.logSoftmax(-1);
    const logProbs = logs.gather(1, targets.unsqueeze(1)).squeeze(1);
    const entropy = logs.exp().mul(logs).sum(-1).neg();
    logProbs.mul(gradLogProbs).sum().add(entropy.mul(gradEntropy).sum()).backward();

    const head = new nn.LogProbHead(hidden, weight, targets, {
      ...options,
      entropy: true,
      sumPiSquared: true,
      train: true,
    });
    expect(maxDifference(head.result.logProbs, logProbs)).toBeLessThan(1e-5);
    expect(maxDifference(head.result.entropy!, entropy)).toBeLessThan(1e-5);
    expect(maxDifference(head.result.sumPiSquared!, logs.exp().square().sum(-1))).toBeLessThan(1e-5);
    const gradient = head.backward(gradLogProbs, gradEntropy, weight);
    expect(maxDifference(gradient, leaf.grad!)).toBeLessThan(1e-5);
    expect(maxDifference(weight.gradient!, weight.grad!)).toBeLessThan(1e-5);
  });

  it('steps forward and back at once as it does in two walks', () => {
    manualSeed(8);
    const [hidden, targets] = [randn([10, 6]), randint(0, 17, [10])];
    const [weight, other] = [new nn.Parameter(randn([17, 6])), new nn.Parameter(randn([17, 6]))];
    noGrad(() => other.copy_(weight));
    const [slope, inner] = [randn([10]), randn([10])];
    const options = { temperature: 0.8, entropy: true, chunkTokens: 4 };
    const head = new nn.LogProbHead(hidden, weight, targets, { ...options, train: true });
    // A gradient that depends on the log-probs themselves, as a policy's does.
    const wanted = head.backward(head.result.logProbs.exp().mul(slope), inner, weight);
    const before = liveTensors().count;
    const seen: number[] = [];
    const step = nn.headStep(
      hidden,
      other,
      targets,
      ({ start, length, logProbs, entropy }) => {
        seen.push(start, length);
        expect(scope(() => maxDifference(entropy!, head.result.entropy!.narrow(0, start, length)))).toBeLessThan(1e-6);
        return {
          logProbs: logProbs.exp().mul(slope.narrow(0, start, length)),
          entropy: inner.narrow(0, start, length),
        };
      },
      options,
    );
    // The log-probs, the gradient of the hidden states and that of the weight.
    expect(liveTensors().count - before).toBe(3);
    expect(seen).toEqual([0, 4, 4, 4, 8, 2]);
    expect(maxDifference(step.logProbs, head.result.logProbs)).toBeLessThan(1e-6);
    expect(maxDifference(step.gradHidden, wanted)).toBeLessThan(1e-6);
    expect(maxDifference(other.gradient!, weight.gradient!)).toBeLessThan(1e-6);
  });

  it('never holds the logits of all tokens when they do not fit', () => {
    const [tokens, features, vocabulary] = [4096, 8, 4096];
    const hidden = randn([tokens, features]);
    const weight = new nn.Parameter(randn([vocabulary, features]));
    const targets = randint(0, vocabulary, [tokens]);
    const before = liveTensors().bytes;
    const head = new nn.LogProbHead(hidden, weight, targets, { chunkTokens: 256, keepBytes: 1 << 20, train: true });
    const kept = liveTensors().bytes - before;
    expect(kept).toBeLessThan(tokens * vocabulary * 4 * 0.01);
    head
      .backward(
        noGrad(() => randn([tokens])),
        null,
        weight,
      )
      .dispose();
  });
});
