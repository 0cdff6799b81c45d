// Generation speed, beside transformers' generate in the same run.
//   node bench/rollout.mjs --device cuda:0    Qwen2.5-0.5B shape: 256 requests of random length, steady decode, roofline
//   node bench/rollout.mjs --device cpu       batch 128 on models of 4M and 0.5M parameters
//   --no-peer leaves transformers out; --requests, --max-num-seqs, --prompt, --new change the sizes
import { parseArgs } from 'node:util';
import { getThreads, manualSeed, synchronizeSync } from '../packages/torch/dist/index.js';
import { createCausalLM } from '../packages/verlet/dist/models/index.js';
import { RolloutEngine } from '../packages/verlet/dist/rollout/index.js';
import { cacheBytesPerToken, matmulParameters, qwen05b, seeded, small4m, tiny05m } from './models.mjs';
import { runPeer } from './peers.mjs';

const { values: options } = parseArgs({
  options: {
    device: { type: 'string', default: 'cpu' },
    'no-peer': { type: 'boolean', default: false },
    requests: { type: 'string', default: '256' },
    'max-num-seqs': { type: 'string', default: '256' },
    prompt: { type: 'string', default: '64' },
    new: { type: 'string', default: '128' },
    repeats: { type: 'string', default: '3' },
  },
});
const { device } = options;
const repeats = Number(options.repeats);
const per = (count, seconds) => Math.round(count / seconds).toLocaleString('en');

/** Runs requests to their end; seconds from the first submit to the last token. */
async function run(engine, requests) {
  const start = performance.now();
  const outputs = await Promise.all(requests.map((request) => engine.submit(request).output));
  return { seconds: (performance.now() - start) / 1000, outputs };
}

function prompts(random, count, length, vocabulary) {
  return Array.from({ length: count }, () => Array.from({ length: length() }, () => Math.floor(random() * vocabulary)));
}

async function steady(engine, config, { batch, prompt, count }) {
  const random = seeded(1);
  const make = (maxTokens) =>
    prompts(random, batch, () => prompt, config.vocab_size).map((promptIds, k) => ({
      promptIds,
      sampleIndex: k,
      sampling: { maxTokens, ignoreEos: true, seed: 7 },
    }));
  await run(engine, make(8));
  // Two lengths; the difference is decoding alone.
  let best = Number.POSITIVE_INFINITY;
  for (let k = 0; k < repeats; k++) {
    const short = await run(engine, make(16));
    const long = await run(engine, make(16 + count));
    best = Math.min(best, (long.seconds - short.seconds) / count);
  }
  return best;
}

async function onCuda() {
  const config = qwen05b;
  const maxNumSeqs = Number(options['max-num-seqs']);
  manualSeed(0);
  const model = createCausalLM(config, { device, dtype: 'bfloat16' });
  model.setTrainable(false);
  const engine = new RolloutEngine(model, {
    maxNumSeqs,
    maxNumBatchedTokens: 16384,
    maxModelLength: 4096,
    enablePrefixCaching: false,
    gpuMemoryUtilization: 0.8,
  });
  const started = performance.now();
  engine.warmUp();
  synchronizeSync(device);
  console.log(`graphs captured in ${((performance.now() - started) / 1000).toFixed(1)} s`);

  const weightBytes = 2 * matmulParameters(config);
  const bandwidth = 4.3e12;
  for (const [batch, prompt] of [
    [maxNumSeqs, 256],
    [64, 256],
    [1, 256],
  ]) {
    const seconds = await steady(engine, config, { batch, prompt, count: 256 });
    const bytes = weightBytes + batch * (prompt + 16 + 128) * cacheBytesPerToken(config);
    console.log(
      `steady decode, batch ${batch}, context ${prompt + 16} to ${prompt + 272}: ${(seconds * 1000).toFixed(3)} ms a step, ` +
        `${per(batch, seconds)} tok/s, ${Math.round((100 * bytes) / bandwidth / seconds)}% of the memory roofline`,
    );
  }

  const random = seeded(0);
  const between = () => 100 + Math.floor(random() * 925);
  const requests = prompts(random, Number(options.requests), between, 10000).map((promptIds, k) => ({
    promptIds,
    sampleIndex: k,
    sampling: { maxTokens: between(), ignoreEos: true, temperature: 0.6, seed: 1 },
  }));
  const prompt = requests.reduce((sum, request) => sum + request.promptIds.length, 0);
  const output = requests.reduce((sum, request) => sum + request.sampling.maxTokens, 0);
  await run(
    engine,
    requests.slice(0, 32).map((r) => ({ ...r, sampling: { ...r.sampling, maxTokens: 16 } })),
  );
  for (let k = 0; k < repeats; k++) {
    const { seconds, outputs } = await run(engine, requests);
    const made = outputs.reduce((sum, one) => sum + one.tokenIds.length, 0);
    if (made !== output) throw new Error(`made ${made} tokens, wanted ${output}`);
    console.log(
      `${requests.length} requests, 100-1024 in and out (${prompt} in, ${output} out): ${seconds.toFixed(2)} s, ${per(output, seconds)} output tok/s`,
    );
  }
  await engine.close();
  if (options['no-peer']) return;
  const peer = runPeer('generate.py', { config, device, batch: 256, prompt: 256, new: 128 });
  if (peer) console.log(`transformers generate, batch 256, prompt 256, 128 new: ${per(256 * 128, peer.seconds)} tok/s`);
}

async function onCpu() {
  const [batch, prompt, count] = [128, Number(options.prompt), Number(options.new)];
  for (const [name, config] of [
    ['4M', small4m],
    ['0.5M', tiny05m],
  ]) {
    manualSeed(0);
    const model = createCausalLM(config, { device });
    model.setTrainable(false);
    // As the trainer opens its own.
    const engine = new RolloutEngine(model, {
      maxNumSeqs: batch,
      maxModelLength: prompt + count + 8,
      tokensPerStep: 8,
    });
    const random = seeded(3);
    const make = (maxTokens) =>
      prompts(random, batch, () => prompt, config.vocab_size).map((promptIds, k) => ({
        promptIds,
        sampleIndex: k,
        sampling: { maxTokens, ignoreEos: true, seed: 1 },
      }));
    await run(engine, make(4));
    let seconds = Number.POSITIVE_INFINITY;
    for (let k = 0; k < repeats; k++) seconds = Math.min(seconds, (await run(engine, make(count))).seconds);
    console.log(
      `${name} (${(model.parameterCount() / 1e6).toFixed(2)}M parameters), batch ${batch}, prompt ${prompt}, ${count} new, ${getThreads()} threads: ${per(batch * count, seconds)} tok/s`,
    );
    await engine.close();
    model.dispose();
    if (options['no-peer']) continue;
    const peer = runPeer('generate.py', { config, device, batch, prompt, new: count, repeats, threads: getThreads() });
    if (peer)
      console.log(
        `  transformers generate: ${per(batch * count, peer.seconds)} tok/s; Verlet is ${(peer.seconds / seconds).toFixed(1)} times as fast`,
      );
  }
}

await (device === 'cpu' ? onCpu() : onCuda());
