// Trains one weight on the main thread and in two workers at once, with whatever Node runs this file. Prints JSON.
import { isMainThread, parentPort, Worker } from 'node:worker_threads';

const { ones, liveTensors, scope, tensor } = await import('../../dist/index.js');

/** y = 3x from examples; bf16 too, because its kernels are the ones that may not run. */
function learn() {
  return scope(() => {
    const weight = tensor([0]).setRequiresGrad();
    for (let step = 0; step < 60; step++) {
      scope(() => {
        const x = tensor([1, 2, -1]);
        const error = x.mul(weight).sub(x.mul(3));
        error.square().mean().backward();
        const rate = tensor([0.1]);
        weight.detach().sub_(weight.grad.mul(rate));
        weight.setGrad(null);
      });
    }
    const product = ones([64, 64], { dtype: 'bfloat16' }).matmul(ones([64, 64], { dtype: 'bfloat16' }));
    return { weight: weight.item(), product: product.sum().item() };
  });
}

const result = learn();
if (isMainThread) {
  const workers = await Promise.all(
    [1, 2].map(
      () =>
        new Promise((resolve, reject) => {
          const worker = new Worker(new URL(import.meta.url));
          worker.once('message', resolve).once('error', reject);
        }),
    ),
  );
  console.log(
    JSON.stringify({ node: process.versions.node, results: [result, ...workers], live: liveTensors().count }),
  );
} else {
  parentPort.postMessage(result);
}
