import { describe, expect, it } from 'vitest';
import {
  AdamW,
  clipGradNorm,
  liveTensors,
  lrSchedule,
  manualSeed,
  noGrad,
  randn,
  scope,
  setThreads,
  type Tensor,
} from './index.js';

/** Two layers that learn to copy a fixed random network. */
function makeNet(inputs: number, hidden: number): Map<string, Tensor> {
  const parameter = (...shape: number[]) =>
    noGrad(() => scope(() => randn(shape).mul(shape.at(-1)! ** -0.5)))
      .setRequiresGrad()
      .keep();
  return new Map([
    ['up', parameter(hidden, inputs)],
    ['bias', parameter(hidden)],
    ['down', parameter(1, hidden)],
  ]);
}

const forward = (net: Map<string, Tensor>, x: Tensor) =>
  x.linear(net.get('up')!, net.get('bias')!).tanh().linear(net.get('down')!);

describe('training a small net', () => {
  it('learns in 500 steps with a flat live count and flat memory', () => {
    // Threads only cost time on tensors of this size, and a lot of it when others use the machine.
    setThreads(1);
    manualSeed(0);
    const teacher = makeNet(16, 32);
    const net = makeNet(16, 64);
    const optimizer = new AdamW(net, { lr: 0.01, weightDecay: 0 });
    const factor = lrSchedule({ type: 'cosine', totalSteps: 500, warmupSteps: 20 });
    const losses: number[] = [];
    const counts = new Set<number>();
    let early = 0;
    for (let step = 0; step < 500; step++) {
      const loss = scope(() => {
        const x = randn([256, 16]);
        const loss = forward(net, x)
          .sub(noGrad(() => forward(teacher, x)))
          .square()
          .mean();
        loss.backward();
        clipGradNorm(
          [...net.values()].map((p) => p.grad),
          1,
        );
        optimizer.lr = 0.01 * factor(step);
        optimizer.step();
        optimizer.zeroGrad();
        return loss.item();
      });
      losses.push(loss);
      counts.add(liveTensors().count);
      if (step === 100) early = process.memoryUsage().rss;
    }
    const grown = (process.memoryUsage().rss - early) / 2 ** 20;
    expect(losses.at(-1)!).toBeLessThan(losses[0]! / 50);
    expect(counts.size).toBe(1);
    // A step's activations are a quarter of a MiB: leaked, they would be 100 MiB by now.
    expect(grown).toBeLessThan(40);
    optimizer.dispose();
    for (const parameter of [...teacher.values(), ...net.values()]) parameter.dispose();
    expect(liveTensors().count).toBe(0);
  });
});
