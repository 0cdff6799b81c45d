// A training step on packed sequences, Qwen2.5-0.5B shape in bfloat16, beside plain transformers in the same run.
//   node bench/train-step.mjs [--device cuda:0] [--rows 16] [--length 1024] [--recompute none,selective,selective:18,full] [--no-peer]
// Once for each way of keeping activations. --head-tokens: tokens whose logits exist at a time;
// --ragged: sequences of different lengths (transformers keeps those of one length).
import { parseArgs } from 'node:util';
import {
  AdamW,
  cat,
  clipGradNorm,
  cudaMemory,
  emptyCudaCache,
  full,
  manualSeed,
  nn,
  randint,
  resetPeakMemory,
  scope,
  synchronizeSync,
} from '../packages/torch/dist/index.js';
import { createCausalLM, PackedAttention } from '../packages/verlet/dist/models/index.js';
import { matmulParameters, qwen05b } from './models.mjs';
import { runPeer } from './peers.mjs';
import { median } from './timing.mjs';

const { values: options } = parseArgs({
  options: {
    device: { type: 'string', default: 'cuda:0' },
    rows: { type: 'string', default: '16' },
    length: { type: 'string', default: '1024' },
    repeats: { type: 'string', default: '5' },
    recompute: { type: 'string', default: 'none,selective,selective:18,full' },
    'head-tokens': { type: 'string' },
    ragged: { type: 'boolean', default: false },
    'no-peer': { type: 'boolean', default: false },
  },
});
const { device } = options;
const [rows, length, repeats] = [Number(options.rows), Number(options.length), Number(options.repeats)];
const tokens = rows * length;
const config = qwen05b;
// Six for each parameter in a matrix product, and causal attention: half of 12 * layers * hidden * length.
const flopsPerToken = 6 * matmulParameters(config) + 6 * config.num_hidden_layers * config.hidden_size * length;
const peakFlops = 989e12;

// Ragged: as many tokens in sequences from half the length to one and a half times it.
const lengths = Array.from({ length: rows }, (_, k) =>
  options.ragged && rows > 1 ? Math.floor(length / 2 + (length * k) / (rows - 1)) : length,
);
lengths[0] += tokens - lengths.reduce((sum, own) => sum + own, 0);

manualSeed(0);
const model = createCausalLM(config, { device, dtype: 'bfloat16' });
const optimizer = new AdamW(model.namedParameters(), { lr: 1e-6 });
const ids = randint(0, config.vocab_size, [tokens], { device });
const targets = cat([ids.narrow(0, 1, tokens - 1), ids.narrow(0, 0, 1)]);
const clock = () => {
  synchronizeSync(device);
  return performance.now() / 1000;
};

/** Tokens whose logits exist at a time; fewer where memory is what counts. */
const chunkTokens = options['head-tokens'] ? Number(options['head-tokens']) : undefined;
const outer = full([tokens], -1 / tokens, { device });

function step(recompute, watch) {
  const marks = [clock()];
  const mark = () => watch && marks.push(clock());
  scope(() => {
    const context = new PackedAttention(lengths, device);
    const pass = model.model.forwardForTraining(ids, context, { recompute });
    mark();
    // The gradient of the mean negative log-probability.
    const { gradHidden } = nn.headStep(
      pass.hidden,
      model.headWeight,
      targets,
      ({ start, length }) => ({ logProbs: outer.narrow(0, start, length) }),
      { chunkTokens },
    );
    mark();
    pass.backward(gradHidden);
    context.dispose();
  });
  marks.push(clock());
  const gradients = new Map();
  for (const [name, parameter] of model.namedParameters())
    if (parameter.gradient) gradients.set(name, parameter.gradient);
  clipGradNorm(gradients, 1);
  optimizer.step(gradients);
  model.clearGradients();
  marks.push(clock());
  const names = watch ? ['forward', 'head', 'backward', 'optimizer'] : ['pass', 'optimizer'];
  return Object.fromEntries(names.map((name, k) => [name, marks[k + 1] - marks[k]]));
}

const gigabytes = (bytes) => `${(bytes / 2 ** 30).toFixed(1)} GiB`;
const describe = (seconds) =>
  `${(seconds * 1000).toFixed(1)} ms, ${Math.round(tokens / seconds).toLocaleString('en')} tok/s, ${((100 * tokens * flopsPerToken) / seconds / peakFlops).toFixed(1)}% MFU`;

/** `selective:18` recomputes in the first eighteen layers only. */
function measure(choice) {
  const [mode, layers] = choice.split(':');
  const recompute = { mode, layers: layers ? Number(layers) : null };
  const name = `Verlet, recompute ${mode}${layers ? ` in ${layers} layers` : ''}`;
  for (let k = 0; k < 3; k++) step(recompute);
  emptyCudaCache();
  resetPeakMemory(device);
  // As transformers is measured: from an idle device to an idle device, nothing waited for between.
  const steps = Array.from({ length: repeats }, () => step(recompute, false));
  const peak = cudaMemory(device).peakAllocated;
  const seconds = median(steps.map(({ pass }) => pass));
  const whole = seconds + median(steps.map(({ optimizer }) => optimizer));
  console.log(
    `${name}, ${rows} x ${length} ${options.ragged ? 'ragged' : 'packed'}, forward and backward: ${describe(seconds)}; with AdamW ${describe(whole)}; peak ${gigabytes(peak)}`,
  );
  const watched = Array.from({ length: repeats }, () => step(recompute, true));
  const shown = Object.keys(watched[0]).map(
    (part) => `${part} ${(1000 * median(watched.map((times) => times[part]))).toFixed(1)} ms`,
  );
  console.log(`  ${shown.join(', ')}`);
  return { name, seconds, peak };
}

const measured = options.recompute.split(',').map(measure);
optimizer.dispose();
model.dispose();
emptyCudaCache();
if (!options['no-peer']) {
  const peer = runPeer('train_step.py', { config, device, rows, length, repeats });
  if (peer) {
    console.log(
      `transformers, forward and backward: ${describe(peer.seconds)}; with AdamW ${describe(peer.wholeSeconds)}; peak ${gigabytes(peer.peakBytes)}`,
    );
    for (const { name, seconds, peak } of measured)
      console.log(
        `${name}: ${(peer.seconds / seconds).toFixed(2)} times as fast, ${((100 * peak) / peer.peakBytes).toFixed(0)}% of the memory`,
      );
  }
}
