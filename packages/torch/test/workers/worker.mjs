// Trains and samples in a worker thread; tells what came out and what was left.
import { parentPort, workerData } from 'node:worker_threads';
import { AdamW, isGradEnabled, liveTensors, noGrad, ones, randn, scope, tensor } from '../../dist/index.js';

const { index, rounds } = workerData;
let loss = 0;
const weight = tensor([0, 0]).setRequiresGrad();
const optimizer = new AdamW([['weight', weight]], { lr: 0.1, weightDecay: 0 });
for (let round = 0; round < rounds; round++) {
  loss = scope(() => {
    const x = randn([32, 2]);
    const error = x.matmul(weight.sub(tensor([index, -index])).unsqueeze(1));
    const value = error.square().mean();
    value.backward();
    optimizer.step();
    optimizer.zeroGrad();
    return value.item();
  });
}
let refused = '';
try {
  scope(() => ones([2]).add(ones([3])));
} catch (error) {
  refused = `${error.constructor.name}: ${error.message.split('\n')[0]}`;
}
const learned = weight.toArray();
optimizer.dispose();
weight.dispose();
parentPort.postMessage({
  loss,
  learned,
  refused,
  live: liveTensors().count,
  grad: noGrad(isGradEnabled) || !isGradEnabled(),
});
