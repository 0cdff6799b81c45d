// Programs per second through the sandbox, per level and language: node bench/sandbox.mjs [programs=1000] [boxes=2]
import { availableParallelism } from 'node:os';
import { createSandbox } from '../packages/verlet/dist/rewards/sandbox/index.js';

const programs = Number(process.argv[2] ?? 1_000);
const size = Number(process.argv[3] ?? 2);
const code = {
  python:
    'from collections import Counter\nwords = input().split()\nprint(sum(Counter(words).values()) + int(words[0]))',
  javascript:
    "const words = require('fs').readFileSync(0, 'utf8').trim().split(' ');\nconsole.log(words.length + Number(words[0]));",
};

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
    const began = performance.now();
    const results = await sandbox.runBatch(batch);
    const seconds = (performance.now() - began) / 1_000;
    const wrong = results.filter((result, index) => result.stdout !== `${index + 2}\n`).length;
    console.log(
      `${level.padEnd(11)} ${language.padEnd(11)} ${(programs / seconds).toFixed(0).padStart(5)} programs/s  ` +
        `(${seconds.toFixed(2)} s, ${wrong} wrong)`,
    );
    await sandbox.close();
  }
}
