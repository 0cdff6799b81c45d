// Programs per second through the sandbox, per level and language: node bench/sandbox.mjs [programs=400] [boxes=2]
// Beside it the processor time per program of everything involved, which does not depend on what else the machine does.
import { readdirSync, readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { createSandbox } from '../packages/verlet/dist/rewards/sandbox/index.js';

const programs = Number(process.argv[2] ?? 400);
const size = Number(process.argv[3] ?? 2);
const code = {
  python:
    'from collections import Counter\nwords = input().split()\nprint(sum(Counter(words).values()) + int(words[0]))',
  javascript:
    "const words = require('fs').readFileSync(0, 'utf8').trim().split(' ');\nconsole.log(words.length + Number(words[0]));",
};

/** Milliseconds of this process and all below it, ended ones included. Linux counts in hundredths of a second. */
function processorMs() {
  const children = new Map();
  const spent = new Map();
  for (const name of readdirSync('/proc').filter((entry) => /^\d+$/.test(entry))) {
    try {
      const stat = readFileSync(`/proc/${name}/stat`, 'utf8');
      const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
      const parent = Number(fields[1]);
      children.set(parent, [...(children.get(parent) ?? []), Number(name)]);
      const [user, system, endedUser, endedSystem] = fields.slice(11, 15).map(Number);
      spent.set(Number(name), (user + system + endedUser + endedSystem) * 10);
    } catch {
      // Ended while we looked.
    }
  }
  const below = (pid) => (children.get(pid) ?? []).reduce((sum, child) => sum + spent.get(child) + below(child), 0);
  const own = process.cpuUsage();
  return below(process.pid) + (own.user + own.system) / 1_000;
}

console.log(`${programs} programs, ${size} boxes, ${availableParallelism()} cores`);
for (const level of ['bubblewrap', 'wasm']) {
  for (const language of ['python', 'javascript']) {
    let sandbox;
    try {
      sandbox = await createSandbox({ level, size });
    } catch (error) {
      console.log(`${level.padEnd(11)} ${language.padEnd(11)} not available: ${error.message}`);
      continue;
    }
    await sandbox.runBatch(Array.from({ length: size }, () => ({ language, code: code[language], stdin: '1 2\n' })));
    const batch = Array.from({ length: programs }, (_, index) => ({
      language,
      code: code[language],
      stdin: `${index} 2\n`,
    }));
    const before = process.platform === 'linux' ? processorMs() : Number.NaN;
    const began = performance.now();
    const results = await sandbox.runBatch(batch);
    const seconds = (performance.now() - began) / 1_000;
    const each = process.platform === 'linux' ? (processorMs() - before) / programs : Number.NaN;
    const wrong = results.filter((result, index) => result.stdout !== `${index + 2}\n`).length;
    console.log(
      `${level.padEnd(11)} ${language.padEnd(11)} ${(programs / seconds).toFixed(0).padStart(5)} programs/s  ` +
        `${each.toFixed(1).padStart(5)} ms of processor time each  (${seconds.toFixed(2)} s, ${wrong} wrong)`,
    );
    await sandbox.close();
  }
}
