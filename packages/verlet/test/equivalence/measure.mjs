// Accuracy of our equivalence, of sympy and of math-verify on the labelled pairs, where Python has them.
// Usage: node measure.mjs [python]
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { isEquivalent } from '../../dist/rewards/equivalence/index.js';

const python = process.argv[2] ?? process.env.VERLET_PYTHON ?? 'python3';
const pathOf = (name) => fileURLToPath(new URL(name, import.meta.url));

for (const name of ['equivalence-pairs', 'equivalence-pairs-held-out', 'equivalence-pairs-fresh']) {
  const file = pathOf(`../fixtures/${name}.json`);
  const pairs = JSON.parse(readFileSync(file, 'utf8'));
  const unequal = pairs.filter((pair) => !pair.equal).length;
  const report = (engine, verdicts, ms) => {
    const right = verdicts.filter((verdict, index) => verdict === pairs[index].equal).length;
    const falsePositives = verdicts.filter((verdict, index) => verdict && !pairs[index].equal).length;
    const share = ((100 * right) / pairs.length).toFixed(1);
    console.log(
      `${name}: ${engine}: ${right}/${pairs.length} right (${share}%), ${falsePositives} of ${unequal} unequal pairs called equal, ${(ms / pairs.length).toFixed(2)} ms per pair`,
    );
  };
  let start = performance.now();
  const ours = pairs.map((pair) => isEquivalent(pair.prediction, pair.reference));
  report('verlet', ours, performance.now() - start);
  for (const peer of ['sympy', 'math_verify']) {
    start = performance.now();
    const ran = spawnSync(python, [pathOf(`./${peer}_peer.py`), file], { encoding: 'utf8', timeout: 600_000 });
    if (ran.status !== 0) {
      console.log(`${name}: ${peer} did not run: ${(ran.stderr ?? '').trim().split('\n').pop()}`);
      continue;
    }
    const theirs = ran.stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line).equal);
    report(`${peer} (start-up included)`, theirs, performance.now() - start);
  }
}
