// Read and write speed of 100k chat rows beside pyarrow, in one run.
//
//   node bench/parquet.mjs [rows]        (VERLET_PYTHON names a Python with pyarrow)
//
// Both sides start from and end at plain objects (rows), since that is what a trainer handles; pyarrow's own columnar
// time is shown as well. Every figure is the best of three: seconds on the clock / seconds of processor time, which says
// more on a busy machine.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Table from 'cli-table3';
import { openTable, writeParquet } from '../packages/verlet/dist/data/index.js';

const numRows = Number(process.argv[2] ?? 100_000);
const python = process.env.VERLET_PYTHON ?? 'python3';
const folder = mkdtempSync(join(tmpdir(), 'verlet-bench-'));

const WORDS =
  'the model reads a question about trains 天地 apples and prices, thinks — then answers 42 or 3.14 €'.split(' ');
let state = 12345;
const random = (bound) => {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return Math.floor((state / 2 ** 32) * bound);
};
const text = (words) => Array.from({ length: words }, () => WORDS[random(WORDS.length)]).join(' ');
const rows = Array.from({ length: numRows }, (_, index) => ({
  data_source: 'openai/gsm8k',
  prompt: Array.from({ length: 2 + random(5) }, (_, i) => ({
    role: i % 2 ? 'assistant' : 'user',
    content: text(20 + random(40)),
  })),
  ability: 'math',
  reward_model: { style: 'rule', ground_truth: String(random(1000)) },
  extra_info: {
    split: 'train',
    index,
    answer: text(30),
    tags: random(3) ? [text(1), text(2)] : null,
    difficulty: random(100) / 7,
  },
}));

async function best(work) {
  const runs = [];
  for (let i = 0; i < 3; i++) {
    const start = performance.now();
    const before = process.cpuUsage();
    await work();
    const { user, system } = process.cpuUsage(before);
    runs.push([(performance.now() - start) / 1000, (user + system) / 1e6]);
  }
  return [Math.min(...runs.map(([wall]) => wall)), Math.min(...runs.map(([, cpu]) => cpu))];
}

try {
  const path = join(folder, 'rows.parquet');
  const write = await best(() => writeParquet(path, rows));
  const read = await best(async () => {
    const table = await openTable(path);
    let seen = 0;
    for await (const row of table.rows()) seen += row.prompt.length > 0 ? 1 : 0;
    if (seen !== numRows) throw new Error(`read ${seen} of ${numRows} rows`);
    await table.close();
  });
  const table = await openTable(path, { cacheRows: 2 * numRows });
  const order = Array.from({ length: numRows }, (_, i) => i).sort(() => random(2) - 0.5);
  const shuffled = await best(async () => {
    for (const i of order) await table.row(i);
  });
  await table.close();

  const script = `
import json, sys, time, pyarrow as pa, pyarrow.parquet as pq
source, target = sys.argv[1:3]
def best(work):
    times = []
    for _ in range(3):
        start, cpu = time.perf_counter(), time.process_time(); work()
        times.append((time.perf_counter() - start, time.process_time() - cpu))
    return [min(t[0] for t in times), min(t[1] for t in times)]
table = pq.read_table(source)
rows = table.to_pylist()
print(json.dumps({
  "version": pa.__version__, "rows": len(rows),
  "write": best(lambda: pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), target, row_group_size=5000)),
  "write_table": best(lambda: pq.write_table(table, target, row_group_size=5000)),
  "read": best(lambda: pq.read_table(source).to_pylist()),
  "read_table": best(lambda: pq.read_table(source)),
}))`;
  let peer = null;
  try {
    const output = execFileSync(python, ['-c', script, path, join(folder, 'peer.parquet')], {
      encoding: 'utf8',
      timeout: 600_000,
    });
    peer = JSON.parse(output);
  } catch (error) {
    console.warn(`no figures for pyarrow: ${error.message.split('\n')[0]} (set VERLET_PYTHON)`);
  }

  const megabytes = statSync(path).size / 2 ** 20;
  const seconds = (value) => (value === undefined ? '-' : `${value[0].toFixed(2)} / ${value[1].toFixed(2)} s`);
  const report = new Table({
    head: [`${numRows} chat rows`, 'verlet', `pyarrow ${peer?.version ?? '-'}`, 'ratio'],
    style: { head: [] },
  });
  const line = (name, own, other) =>
    report.push([
      name,
      seconds(own),
      seconds(other),
      other ? `${(own[0] / other[0]).toFixed(1)} / ${(own[1] / other[1]).toFixed(1)}` : '-',
    ]);
  line('write rows (objects to file)', write, peer?.write);
  line('read rows (file to objects)', read, peer?.read);
  report.push(['write columns only', '-', seconds(peer?.write_table), '-']);
  report.push(['read columns only', '-', seconds(peer?.read_table), '-']);
  report.push(['every row once, shuffled, cached', seconds(shuffled), '-', '-']);
  report.push([
    'file, snappy',
    `${megabytes.toFixed(1)} MiB`,
    peer ? `${(statSync(join(folder, 'peer.parquet')).size / 2 ** 20).toFixed(1)} MiB` : '-',
    '-',
  ]);
  console.log(report.toString());
  console.log(`node ${process.version}, ${process.platform} ${process.arch}`);
} finally {
  rmSync(folder, { recursive: true, force: true });
}
