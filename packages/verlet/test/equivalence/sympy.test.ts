import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { isEquivalent } from '../../src/rewards/equivalence/index.js';

const pathOf = (name: string) => fileURLToPath(new URL(name, import.meta.url));
const python = process.env.VERLET_PYTHON ?? 'python3';
// sympy's LaTeX parser works with one version of antlr4 only: whether both are there says little.
const probe = spawnSync(
  python,
  ['-c', String.raw`from sympy.parsing.latex import parse_latex; parse_latex(r"\frac{1}{2}")`],
  {
    timeout: 60_000,
  },
);
const problem = probe.status === 0 ? '' : `${python} has no sympy that can parse LaTeX`;

interface Pair {
  prediction: string;
  reference: string;
  equal: boolean;
}

/** `measure.mjs` beside this file does the same over all pairs and prints the table. */
test('on held-out pairs we are at least as accurate as sympy, with no more false positives', (context) => {
  if (problem) context.skip(problem);
  const file = pathOf('../fixtures/equivalence-pairs-held-out.json');
  const pairs = JSON.parse(readFileSync(file, 'utf8')) as Pair[];
  const output = execFileSync(python, [pathOf('./sympy_peer.py'), file], {
    encoding: 'utf8',
    timeout: 110_000,
    stdio: 'pipe',
  });
  const theirs = output
    .trim()
    .split('\n')
    .map((line) => (JSON.parse(line) as { equal: boolean }).equal);
  const ours = pairs.map((pair) => isEquivalent(pair.prediction, pair.reference));
  const right = (verdicts: boolean[]) => verdicts.filter((verdict, index) => verdict === pairs[index]!.equal).length;
  const falsePositives = (verdicts: boolean[]) =>
    verdicts.filter((verdict, index) => verdict && !pairs[index]!.equal).length;
  expect(theirs.length).toBe(pairs.length);
  expect(right(theirs)).toBeGreaterThan(pairs.length / 2); // the peer really ran
  expect(right(ours)).toBeGreaterThanOrEqual(right(theirs));
  expect(falsePositives(ours)).toBe(0);
});
