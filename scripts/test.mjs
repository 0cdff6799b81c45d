// npm test: types, lint, import direction, then the tests. Every part runs even when an earlier one failed.
// The last line is `N passed, N failed, N skipped`. Arguments go to vitest: npm test -- packages/torch
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const program = (name) => path.join(root, 'node_modules/.bin', name);
const folder = mkdtempSync(path.join(tmpdir(), 'verlet-test-'));
const countsFile = path.join(folder, 'counts.json');
const total = { passed: 0, failed: 0, skipped: 0 };

function step(title, command, args) {
  console.log(`\n== ${title}`);
  const started = Date.now();
  const { status, signal, error } = spawnSync(command, args, {
    cwd: root,
    stdio: 'inherit',
    env: { ...process.env, VERLET_TEST_COUNTS: countsFile, ...(process.stdout.isTTY ? {} : { NO_COLOR: '1' }) },
    timeout: 45 * 60_000,
  });
  const seconds = ((Date.now() - started) / 1000).toFixed(1);
  const ending = error?.message ?? (signal ? `died with ${signal}` : `exit ${status}`);
  console.log(`== ${title}: ${status === 0 ? 'ok' : ending} (${seconds} s)`);
  return status === 0;
}

function count(ok) {
  total[ok ? 'passed' : 'failed'] += 1;
}

count(step('types', program('tsc'), ['-b']));
count(step('lint', program('biome'), ['check', '.']));
count(step('import direction', process.execPath, ['scripts/check-imports.mjs']));

const testsOk = step('tests', program('vitest'), ['run', ...process.argv.slice(2)]);
try {
  const counts = JSON.parse(readFileSync(countsFile, 'utf8'));
  for (const key of Object.keys(total)) total[key] += counts[key];
} catch {
  console.log('vitest ended before it could report');
}
// Whatever vitest calls a failure counts, whether or not a single test carries it.
if (!testsOk && total.failed === 0) total.failed = 1;
rmSync(folder, { recursive: true, force: true });

console.log(`\n${total.passed} passed, ${total.failed} failed, ${total.skipped} skipped`);
process.exitCode = total.failed === 0 ? 0 : 1;
