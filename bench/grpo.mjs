#!/usr/bin/env node
// One GRPO step beside TRL's: same model folder, same prompts, same batch, same machine, one after the other in one run; and
// the time that the arithmetic alone would need at the matrix-product rate measured in between.
//   node bench/grpo.mjs [--steps 20] [--size 4m|0.5m|all] [--threads N]      TRL: VERLET_PYTHON, or a venv made in the cache
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { getThreads, manualSeed, noGrad, randn, scope, setThreads } from '@verlet/torch';
import { prepareGrpo, runGrpo, vocabularyOf } from './grpo-run.mjs';
import { peerEnvironment } from './peers.mjs';

const { values } = parseArgs({
  options: {
    steps: { type: 'string', default: '20' },
    size: { type: 'string', default: 'all' },
    threads: { type: 'string' },
  },
});
const here = path.dirname(fileURLToPath(import.meta.url));
const steps = Number(values.steps);
if (values.threads) setThreads(Number(values.threads));

const sizes = {
  '4m': {
    hidden_size: 256,
    intermediate_size: 1024,
    num_hidden_layers: 4,
    num_attention_heads: 4,
    num_key_value_heads: 4,
  },
  '0.5m': {
    hidden_size: 96,
    intermediate_size: 320,
    num_hidden_layers: 4,
    num_attention_heads: 4,
    num_key_value_heads: 4,
  },
};
const prompts = 16;
const samples = 8;
const newTokens = 64;

function python() {
  const works = (command) => spawnSync(command, ['-c', 'import trl, torch, transformers']).status === 0;
  const given = process.env.VERLET_PYTHON ?? 'python3';
  if (works(given)) return given;
  const venv = path.join(process.env.XDG_CACHE_HOME ?? path.join(homedir(), '.cache'), 'verlet', 'bench-venv');
  const own = path.join(venv, 'bin', 'python');
  if (existsSync(own) && works(own)) return own;
  console.log(`making ${venv} with TRL (once)`);
  const run = (command, ...args) =>
    execFileSync(command, args, { stdio: ['ignore', 'ignore', 'inherit'], timeout: 1_800_000 });
  try {
    run('python3', '-m', 'venv', venv);
    run(own, '-m', 'pip', 'install', '-q', 'torch==2.13.0');
    run(own, '-m', 'pip', 'install', '-q', 'trl', 'datasets', 'accelerate');
    return own;
  } catch (error) {
    console.log(`no TRL: ${error.message.split('\n')[0]}`);
    return null;
  }
}

/** Floating-point operations per second of a product with the shapes of this model's layers. */
function matmulRate({ hidden_size: hidden, intermediate_size: wide }) {
  const rows = 4096;
  return noGrad(() =>
    scope(() => {
      const x = randn([rows, hidden]);
      const w = randn([wide, hidden]);
      const once = () => scope(() => void x.linear(w));
      for (let k = 0; k < 5; k++) once();
      let best = Number.POSITIVE_INFINITY;
      for (let k = 0; k < 30; k++) {
        const start = performance.now();
        once();
        best = Math.min(best, performance.now() - start);
      }
      return (2 * rows * hidden * wide) / (best / 1000);
    }),
  );
}

async function measure(name) {
  const shape = sizes[name];
  const words = vocabularyOf(200);
  manualSeed(1);
  const made = await prepareGrpo({
    words,
    texts: [words.join(' '), ` ${words.join(' ')}`],
    promptWords: 12,
    rowCount: prompts * (steps + 2),
    shape: {
      model_type: 'qwen2',
      ...shape,
      vocab_size: 512,
      max_position_embeddings: 512,
      rms_norm_eps: 1e-6,
      rope_theta: 10000,
      tie_word_embeddings: true,
      hidden_act: 'silu',
      use_sliding_window: false,
    },
  });
  const { weights, promptTokens } = made;

  const rate = matmulRate(shape);
  // Matrix products only: each sampled token once forward, each trained token forward and twice back. Prompts count for every
  // sample, as TRL computes them; Verlet computes them once for all samples of a group.
  const sampled = prompts * samples * newTokens;
  const trained = prompts * samples * (promptTokens + newTokens);
  const operations = 2 * weights * (sampled + prompts * promptTokens) + 6 * weights * trained;
  const floor = operations / rate;

  const median = await runGrpo(made, {
    prompts,
    samples,
    newTokens,
    steps,
    reward: ({ solution_str }) => solution_str.length / 300,
    overrides: ['data.shuffle=false', 'data.max_prompt_length=64', 'actor_rollout_ref.actor.optim.lr=1e-6'],
  });
  const phase = (key) => median(`timing_s/${key}`);

  const peer = python();
  let trl = null;
  if (peer) {
    const answer = spawnSync(
      peer,
      [
        path.join(here, 'trl_grpo.py'),
        made.model,
        made.data,
        String(prompts),
        String(samples),
        String(newTokens),
        String(steps),
        String(getThreads()),
      ],
      { encoding: 'utf8', timeout: 1_200_000, env: peerEnvironment() },
    );
    if (answer.status === 0) trl = JSON.parse(answer.stdout.trim().split('\n').at(-1));
    else console.log(`TRL failed: ${answer.stderr.split('\n').slice(-4).join(' ')}`);
  }
  made.remove();
  const step = phase('step');
  const saved = median('perf/shared_prompt_tokens') / trained;
  return { name, weights, rate, floor, step, gen: phase('gen'), update: phase('update_actor'), saved, trl };
}

const results = [];
for (const name of values.size === 'all' ? Object.keys(sizes) : [values.size]) results.push(await measure(name));
for (const { name, weights, rate, floor, step, gen, update, saved, trl } of results) {
  console.log(
    `\n${name}: ${(weights / 1e6).toFixed(2)} M parameters, ${prompts} prompts x ${samples} samples x ${newTokens} tokens, fp32, ${getThreads()} threads, median of ${steps} steps`,
  );
  console.log(`  matrix products run at      ${(rate / 1e9).toFixed(0)} GFLOP/s`);
  console.log(`  arithmetic floor            ${floor.toFixed(3)} s`);
  console.log(
    `  verlet                      ${step.toFixed(3)} s   ${(step / floor).toFixed(2)}x the floor   (sampling ${gen.toFixed(3)}, update ${update.toFixed(3)} with ${(100 * saved).toFixed(0)}% of the tokens shared)`,
  );
  if (trl)
    console.log(
      `  TRL ${trl.version.padEnd(10)}              ${trl.step.toFixed(3)} s   ${(trl.step / floor).toFixed(2)}x the floor   verlet is ${(trl.step / step).toFixed(1)}x faster`,
    );
}
