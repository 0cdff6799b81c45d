#!/usr/bin/env node
// Draws metrics of a run into one picture, for READMEs:
//   node scripts/draw-curves.mjs RUN_FOLDER picture.svg "reward=critic/score/mean" "parts=reward/format,reward/similarity"
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { chartsSvg } from '../packages/verlet/dist/trainer/report/chart.js';

const [run, output, ...charts] = process.argv.slice(2);
if (!run || !output || charts.length === 0) {
  console.error('usage: node scripts/draw-curves.mjs RUN_FOLDER picture.svg "TITLE=METRIC,METRIC" ...');
  process.exit(2);
}
const lines = (await readFile(path.join(run, 'metrics.jsonl'), 'utf8')).trim().split('\n');
const records = lines.map((line) => JSON.parse(line));
const series = (name) => ({
  label: labelOf(name),
  points: records.filter(({ data }) => name in data).map(({ step, data }) => [step, data[name]]),
});
const drawn = charts.map((chart) => {
  const [title, names] = chart.split('=');
  return { title, series: names.split(',').map(series) };
});
for (const { title, series: own } of drawn)
  for (const { label, points } of own)
    if (points.length === 0) throw new Error(`${title}: the run has no metric for "${label}"`);
await writeFile(output, chartsSvg(drawn));
console.log(`wrote ${output}`);

/** The telling part of a metric's name. */
function labelOf(name) {
  const words = name.split('/');
  return words[0].startsWith('val-') ? words[2] : words[1];
}
