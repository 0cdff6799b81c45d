// Writes docs/reference/metrics.md from the table in packages/verlet/src/trainer/metric-reference.ts.
// `--check` writes nothing and fails when the page is out of date.
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { renderMetricReference } from '../packages/verlet/dist/trainer/metric-reference.js';

const file = fileURLToPath(new URL('../docs/reference/metrics.md', import.meta.url));
const text = renderMetricReference();
if (process.argv.includes('--check')) {
  if (readFileSync(file, 'utf8') !== text) {
    console.error('docs/reference/metrics.md is out of date: run node scripts/generate-metrics-reference.mjs');
    process.exitCode = 1;
  }
} else {
  writeFileSync(file, text);
  console.log('wrote docs/reference/metrics.md');
}
