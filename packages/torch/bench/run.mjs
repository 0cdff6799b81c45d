#!/usr/bin/env node
// npm run bench -w packages/torch: this package beside Python's torch on this machine, in turns, best times. Without Python torch
// only our own times are printed. VERLET_PYTHON names the Python; --threads and --turns change the load. On a machine that others
// use too, --threads 1 --clock cpu counts CPU time instead of the clock on the wall.
import { spawnSync } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { buildInfo } from '../dist/index.js';

const { values } = parseArgs({
  options: {
    threads: { type: 'string', default: String(availableParallelism()) },
    turns: { type: 'string', default: '3' },
    clock: { type: 'string', default: 'wall' },
  },
});
const [threads, turns] = [Number(values.threads), Number(values.turns)];
const deadlineMs = 10 * 60_000;
const here = (name) => fileURLToPath(new URL(name, import.meta.url));
const python = process.env.VERLET_PYTHON ?? 'python3';

// Goals as ratios of our time to Python's.
const goals = { 'tiny add': 1.5, 'matmul 1024 fp32': 1.05, 'transformer train step': 1.1 };

function runOnce(command, file) {
  const outcome = spawnSync(command, [here(file), String(threads), values.clock], {
    encoding: 'utf8',
    timeout: deadlineMs,
  });
  if (outcome.status !== 0) throw new Error(`${file}: ${outcome.error?.message ?? outcome.stderr}`);
  return JSON.parse(outcome.stdout);
}

const hasPython = spawnSync(python, ['-c', 'import torch'], { timeout: 60_000 }).status === 0;
if (!hasPython) console.log(`${python} has no torch: nothing to compare with (set VERLET_PYTHON)`);

const ours = { times: {} };
const theirs = { times: {} };
for (let turn = 0; turn < turns; turn++) {
  for (const [total, command, file] of [
    [ours, process.execPath, 'measure.mjs'],
    ...(hasPython ? [[theirs, python, 'measure.py']] : []),
  ]) {
    const { times, ...rest } = runOnce(command, file);
    Object.assign(total, rest);
    for (const [name, time] of Object.entries(times))
      total.times[name] = Math.min(total.times[name] ?? Number.POSITIVE_INFINITY, time);
  }
}

const show = (microseconds) =>
  microseconds >= 1000 ? `${(microseconds / 1000).toFixed(2)} ms` : `${microseconds.toFixed(2)} us`;
const version = theirs.version ? `Python torch ${theirs.version}` : 'Python torch: none';
console.log(
  `libtorch ${buildInfo().version}, Node ${process.versions.node}, ${version}, ${threads} threads, ${values.clock} time, best of ${turns} turns\n`,
);
console.log(`${'what'.padEnd(28)}${'@verlet/torch'.padStart(15)}${'Python'.padStart(12)}${'ratio'.padStart(8)}  goal`);
for (const [name, time] of Object.entries(ours.times)) {
  const peer = theirs.times[name];
  const ratio = peer === undefined ? '' : (time / peer).toFixed(2);
  const goal =
    goals[name] === undefined || peer === undefined
      ? ''
      : `<= ${goals[name]} ${time / peer <= goals[name] ? 'reached' : 'MISSED'}`;
  console.log(
    `${name.padEnd(28)}${show(time).padStart(15)}${(peer === undefined ? '' : show(peer)).padStart(12)}${ratio.padStart(8)}  ${goal}`,
  );
}
if (hasPython) console.log(`\nloss after 5 steps: ours ${ours.loss.toFixed(6)}, Python ${theirs.loss.toFixed(6)}`);
if (hasPython && Math.abs(ours.loss - theirs.loss) > 1e-3) {
  console.error('the two do not train the same model');
  process.exitCode = 1;
}
