// Time of each kernel of a decode step (Qwen2.5-0.5B shape), as graph replays: node bench/kernels.mjs [--batch 256] [--context 512]
import { parseArgs } from 'node:util';
import {
  aten,
  CudaEvent,
  CudaGraph,
  noGrad,
  ones,
  randint,
  randn,
  scope,
  zeros,
} from '../packages/torch/dist/index.js';
import { qwen05b } from './models.mjs';

const { values: options } = parseArgs({
  options: { batch: { type: 'string', default: '256' }, context: { type: 'string', default: '512' } },
});
const [batch, context] = [Number(options.batch), Number(options.context)];
const device = 'cuda:0';
const { hidden_size: hidden, intermediate_size: wide, vocab_size: vocabulary } = qwen05b;
const [heads, kvHeads, dim, blockSize] = [14, 2, 64, 16];
const bf16 = { device, dtype: 'bfloat16' };
const width = Math.ceil(context / blockSize) + 4;
const blocks = batch * width;
const layers = 8;
const make = (shape) => randn(shape, bf16).mul(0.05).keep();
const x = make([batch, hidden]);
const residual = make([batch, hidden]);
const qkv = make([batch, heads + 2 * kvHeads, dim]);
const up = make([batch, 2 * wide]);
const logits = randn([batch, vocabulary], bf16).keep();
const norm = make([hidden]);
const tables = make([4096, dim]);
const keys = Array.from({ length: layers }, () => make([blocks, blockSize, kvHeads, dim]));
const values = Array.from({ length: layers }, () => make([blocks, blockSize, kvHeads, dim]));
const qkvWeight = Array.from({ length: layers }, () => make([(heads + 2 * kvHeads) * dim, hidden]));
const qkvBias = make([(heads + 2 * kvHeads) * dim]);
const outWeight = Array.from({ length: layers }, () => make([hidden, hidden]));
const upWeight = Array.from({ length: layers }, () => make([2 * wide, hidden]));
const downWeight = Array.from({ length: layers }, () => make([hidden, wide]));
const down = make([batch, wide]);
const head = make([vocabulary, hidden]);
const int = { device, dtype: 'int32' };
const table = aten.arange(blocks, 'int32', null, device).reshape(batch, width).keep();
const rows = aten.arange(batch, 'int32', null, device).keep();
const limit = ones([batch], int).mul(context).keep();
const position = ones([batch], int)
  .mul(context - 1)
  .keep();
const slot = aten
  .arange(batch, 'int32', null, device)
  .mul(width * blockSize)
  .keep();
const floats = (value) => ones([batch], { device }).mul(value).keep();
const longs = (value) => ones([batch], { device, dtype: 'int64' }).mul(value).keep();
const [one, zero, none, key] = [floats(1), floats(0), longs(-1), longs(3)];
const index = randint(0, 1000, [batch], { device }).keep();

function time(name, bytes, body) {
  noGrad(() => scope(() => body(0)));
  const repeats = 24;
  const graph = CudaGraph.capture(() =>
    noGrad(() =>
      scope(() => {
        for (let k = 0; k < repeats; k++) body(k % layers);
      }),
    ),
  );
  graph.replay();
  const [start, end] = [new CudaEvent(), new CudaEvent()];
  start.record();
  for (let k = 0; k < 10; k++) graph.replay();
  end.record();
  end.synchronizeSync();
  const micro = (start.elapsed(end) * 1000) / (10 * repeats);
  graph.dispose();
  console.log(
    `${name.padEnd(28)} ${micro.toFixed(1).padStart(8)} us  ${(bytes / micro / 1e3).toFixed(0).padStart(6)} GB/s`,
  );
}

console.log(`batch ${batch}, context ${context}`);
const b = 2 * batch;
time('add + norm', b * hidden * 4, () => aten.verlet_add_rms_norm(x, residual, norm, 1e-6));
time('qkv', 2 * qkvWeight[0].numel, (k) => aten.linear(x, qkvWeight[k], qkvBias));
time('rope + store', b * 1152 * 2, (k) =>
  aten.verlet_rope_cache_(qkv, tables, tables, position, keys[k], values[k], slot, heads, null, null, 1e-6),
);
time('attention', batch * context * kvHeads * dim * 4, (k) =>
  aten.verlet_paged_attention(qkv.narrow(1, 0, heads), keys[k], values[k], table, rows, limit, 0.125, 0),
);
time('out', 2 * outWeight[0].numel, (k) => aten.linear(x, outWeight[k]));
time('gate and up', 2 * upWeight[0].numel, (k) => aten.linear(x, upWeight[k]));
time('SwiGLU', b * wide * 3, () => aten.verlet_swiglu(up));
time('down', 2 * downWeight[0].numel, (k) => aten.linear(down, downWeight[k]));
time('head', 2 * head.numel + b * vocabulary, () => aten.linear(x, head));
time('sample', b * vocabulary, () => aten.verlet_sample(logits, one, none, one, zero, key, key, index));
time('sample, greedy', b * vocabulary, () => aten.verlet_sample(logits, zero, none, one, zero, key, key, index));
const fifty = longs(50);
time('sample, top-k 50', b * vocabulary, () => aten.verlet_sample(logits, one, fifty, one, zero, key, key, index));
zeros([1]);
