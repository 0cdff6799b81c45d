#!/usr/bin/env node
// node bench/decode.mjs [batch...]: decode steps of a Qwen2.5-0.5B-shaped model with random weights on a CUDA device: a slot KV
// cache, sampling on the device, eager and as one CUDA graph. Only public API; no kernels of our own.
import { performance } from 'node:perf_hooks';
import {
  arange,
  aten,
  CudaGraph,
  cudaMemory,
  deviceProperties,
  emptyCudaCache,
  isCudaAvailable,
  liveTensors,
  noGrad,
  ones,
  randn,
  scope,
  synchronizeSync,
  zeros,
} from '../dist/index.js';

if (!isCudaAvailable()) {
  console.log('decode: this machine or this build has no CUDA');
  process.exit(0);
}

const device = 'cuda:0';
const [layers, width, heads, kvHeads, headSize, hidden, vocabulary] = [24, 896, 14, 2, 64, 4864, 151936];
const [slots, promptLength, eagerSteps, graphSteps] = [512, 128, 20, 256];
const dtype = 'bfloat16';
const weight = (...shape) => scope(() => randn(shape, { dtype, device }).mul_(0.02));
const qkvSizes = [heads * headSize, kvHeads * headSize, kvHeads * headSize];

/** One batch size: its caches and its step. */
function makeDecoder(batch, model) {
  const caches = Array.from({ length: layers }, () => ({
    keys: zeros([batch * slots, kvHeads, headSize], { dtype, device }),
    values: zeros([batch * slots, kvHeads, headSize], { dtype, device }),
  }));
  const queryStarts = arange(0, batch + 1, 1, { dtype: 'int32', device });
  const keyStarts = queryStarts.mul(slots);
  const token = zeros([batch], { dtype: 'int64', device });
  const position = zeros([batch], { dtype: 'int64', device }).fill_(promptLength);
  const firstSlot = scope(() => arange(0, batch, 1, { device }).mul(slots));
  const logProb = zeros([batch, 1], { device });

  const rotate = (x, cos, sin) => {
    const [first, second] = x.chunk(2, -1);
    return x.mul(cos).add(aten.cat([second.neg(), first], -1).mul(sin));
  };

  const step = () =>
    scope(() => {
      let x = aten.embedding(model.embedding, token); // [batch, width]
      const cos = model.cos.indexSelect(0, position).unsqueeze(1);
      const sin = model.sin.indexSelect(0, position).unsqueeze(1);
      const slot = firstSlot.add(position);
      const used = position.add(1).to('int32');
      model.layers.forEach((layer, index) => {
        const { keys, values } = caches[index];
        const [h] = aten._fused_rms_norm(x, [width], layer.norm1, 1e-6);
        const [q, k, v] = h.linear(layer.qkv, layer.qkvBias).split(qkvSizes, -1);
        keys.indexCopy_(0, slot, rotate(k.reshape(batch, kvHeads, headSize), cos, sin));
        values.indexCopy_(0, slot, v.reshape(batch, kvHeads, headSize));
        const [attended] = aten._flash_attention_forward(
          rotate(q.reshape(batch, heads, headSize), cos, sin),
          keys,
          values,
          queryStarts,
          keyStarts,
          1,
          slots,
          0,
          false,
          false,
          headSize ** -0.5,
          null,
          null,
          used,
        );
        x = x.add(attended.reshape(batch, heads * headSize).linear(layer.out));
        const [h2] = aten._fused_rms_norm(x, [width], layer.norm2, 1e-6);
        const [gate, up] = h2.linear(layer.gateUp).chunk(2, -1);
        x = x.add(gate.silu().mul(up).linear(layer.down));
      });
      const [last] = aten._fused_rms_norm(x, [width], model.norm, 1e-6);
      const probability = last.linear(model.embedding).float().softmax(-1);
      // The largest of p / exponential noise is a draw from p.
      const noise = aten.exponential_(aten.empty_like(probability));
      const next = probability.div(noise).argmax(-1);
      logProb.copy_(probability.gather(1, next.unsqueeze(1)).log());
      token.copy_(next);
      position.add_(1);
    });

  const restart = () => {
    position.fill_(promptLength);
    synchronizeSync(device);
  };
  const free = () => {
    for (const { keys, values } of caches) for (const tensor of [keys, values]) tensor.dispose();
    for (const tensor of [queryStarts, keyStarts, token, position, firstSlot, logProb]) tensor.dispose();
  };
  return { step, restart, free };
}

function makeModel() {
  const inverse = scope(() =>
    arange(0, headSize, 2, { dtype: 'float32', device })
      .mul(-Math.log(1e6) / headSize)
      .exp(),
  );
  const angles = scope(() => {
    const half = aten.outer(arange(0, slots, 1, { dtype: 'float32', device }), inverse);
    return aten.cat([half, half], 1);
  });
  return {
    embedding: weight(vocabulary, width),
    norm: ones([width], { dtype, device }),
    cos: scope(() => angles.cos().to(dtype)),
    sin: scope(() => angles.sin().to(dtype)),
    layers: Array.from({ length: layers }, () => ({
      norm1: ones([width], { dtype, device }),
      norm2: ones([width], { dtype, device }),
      qkv: weight((heads + 2 * kvHeads) * headSize, width),
      qkvBias: weight((heads + 2 * kvHeads) * headSize),
      out: weight(width, heads * headSize),
      gateUp: weight(2 * hidden, width),
      down: weight(width, hidden),
    })),
  };
}

function timePerCall(calls, body) {
  synchronizeSync(device);
  const start = performance.now();
  for (let k = 0; k < calls; k++) body();
  synchronizeSync(device);
  return (performance.now() - start) / calls;
}

const batches = process.argv.slice(2).map(Number);
const { name } = deviceProperties(device);
console.log(`${name}; Qwen2.5-0.5B shape, ${dtype}, ${slots} slots per row, from position ${promptLength}`);
noGrad(() => {
  const model = makeModel();
  for (const batch of batches.length > 0 ? batches : [256, 1024]) {
    const { step, restart, free } = makeDecoder(batch, model);
    step();
    step();
    restart();
    const before = liveTensors().count;
    const eager = timePerCall(eagerSteps, step);
    restart();
    const graph = CudaGraph.capture(step, { device });
    restart();
    const replay = timePerCall(graphSteps, () => graph.replay());
    const rate = (milliseconds) => `${milliseconds.toFixed(3)} ms (${Math.round((batch / milliseconds) * 1000)} tok/s)`;
    const memory = `${(cudaMemory(device).peakReserved / 2 ** 30).toFixed(1)} GiB`;
    console.log(
      `batch ${batch}: eager ${rate(eager)}, graph ${rate(replay)}; ${memory}; live tensors ${before} → ${liveTensors().count}`,
    );
    graph.dispose();
    free();
    emptyCudaCache();
  }
});
