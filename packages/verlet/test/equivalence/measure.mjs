// Accuracy of our equivalence and of sympy on the labelled pairs. Usage: node measure.mjs [python]
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { isEquivalent } from '../../dist/rewards/equivalence/index.js';

const python = process.argv[2] ?? process.env.VERLET_PYTHON ?? 'python3';
const pathOf = (name) => fileURLToPath(new URL(name, import.meta.url));

for (const name of ['equivalence-pairs', 'equivalence-pairs-held-out']) {
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
  start = performance.now();
  const output = execFileSync(python, [pathOf('./sympy_peer.py'), file], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const theirs = output
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line).equal);
  report('sympy (start-up included)', theirs, performance.now() - start);
}
