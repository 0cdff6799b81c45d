#!/usr/bin/env node
// Programming problems in prime_code's format, and a tiny model for tiny.yaml. Its SFT ends with programs that mostly use a wrong
// operator: only running them tells which one was meant.
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { rewards, writeParquet } from 'verlet';
import { progress } from '../run-options.mjs';
import { chatExample, generator, makeTinyModel } from '../tiny-model.mjs';

const operations = [
  { word: 'plus', sign: '+', apply: (x, y) => x + y },
  { word: 'minus', sign: '-', apply: (x, y) => x - y },
  { word: 'times', sign: '*', apply: (x, y) => x * y },
];

const question = ({ word }, number) => `Write f(x): x ${word} ${number}.`;
const programs = {
  python: ({ sign }, number) => `\`\`\`python\ndef f(x): return x ${sign} ${number}\n\`\`\``,
  javascript: ({ sign }, number) => `\`\`\`js\nfunction f(x) { return x ${sign} ${number}; }\n\`\`\``,
};

/** Python is forked from a warm interpreter in bubblewrap; where that is missing, JavaScript in QuickJS is the fast one. */
export async function fastestLanguage() {
  const { python, javascript } = await rewards.describeSandbox();
  if (python.level === 'bubblewrap') return 'python';
  return javascript.level === 'none' ? null : 'javascript';
}

/** verl's prime_code: calls of `fn_name` with their results. The program never sees the results. */
function row({ operation, number }, language, index, split) {
  const inputs = [5, 7].map((x) => [x]);
  const outputs = inputs.map(([x]) => operation.apply(x, number));
  return {
    data_source: 'codecontests',
    prompt: [{ role: 'user', content: question(operation, number) }],
    ability: 'code',
    reward_model: {
      style: 'rule',
      ground_truth: JSON.stringify({ fn_name: 'f', language, inputs, outputs }),
    },
    extra_info: { split, index },
  };
}

/** Writes data and model. @returns {Promise<{ model: string, train: string, test: string }>} */
export async function prepare(folder, { language = 'python', seed = 1, sftSteps = 120, onStep } = {}) {
  const program = programs[language];
  await mkdir(folder, { recursive: true });
  const files = {
    train: path.join(folder, 'train.parquet'),
    test: path.join(folder, 'test.parquet'),
    model: path.join(folder, 'model'),
  };
  const tasks = operations.flatMap((operation) => Array.from({ length: 8 }, (_, k) => ({ operation, number: k + 2 })));
  const draw = generator(seed);
  const train = Array.from({ length: 256 }, () => tasks[draw(tasks.length)]);
  const rows = (items, split) => items.map((task, k) => row(task, language, k, split));
  await writeParquet(files.train, rows(train, 'train'));
  await writeParquet(files.test, rows(tasks, 'test'));
  await makeTinyModel(files.model, {
    texts: tasks.flatMap(({ operation, number }) => [
      `user ${question(operation, number)}`,
      `assistant ${program(operation, number)}`,
      program(operation, number),
    ]),
    makeExample: (source, tokenizer, done) => {
      const { operation, number } = tasks[source(tasks.length)];
      const isBlind = done > 0.8 && source(10) < 8;
      return chatExample(tokenizer, [
        { role: 'user', content: question(operation, number) },
        { role: 'assistant', content: program(isBlind ? operations[source(operations.length)] : operation, number) },
      ]);
    },
    steps: sftSteps,
    seed,
    onStep,
  });
  return files;
}

if (import.meta.filename === process.argv[1]) {
  const language = await fastestLanguage();
  if (language === null) throw new Error('there is no sandbox on this machine; `verlet doctor` says how to get one');
  const files = await prepare(process.argv[2] ?? 'runs/code-sandbox/start', { language, onStep: progress() });
  console.log(`wrote ${Object.values(files).join(', ')}`);
}
