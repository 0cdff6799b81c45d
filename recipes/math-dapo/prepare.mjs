#!/usr/bin/env node
// Sums in the form of DAPO's data (the answer stands on a line `Answer: 7`) and a tiny model for tiny.yaml. Its SFT ends with many
// answers that go on repeating themselves: what the overlong buffer is there to stop.
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { writeParquet } from 'verlet';
import { problems, row } from '../quickstart/data.mjs';
import { progress } from '../run-options.mjs';
import { chatExample, makeTinyModel } from '../tiny-model.mjs';

const inDapoForm = ({ question, answer, result }) => ({
  question,
  answer: `${answer.slice(0, answer.indexOf(' ####'))}\nAnswer: ${result}`,
  result,
});

/** Writes data and model. @returns {Promise<{ model: string, train: string, test: string }>} */
export async function prepare(folder, { seed = 1, sftSteps = 160, onStep } = {}) {
  await mkdir(folder, { recursive: true });
  const files = {
    train: path.join(folder, 'train.parquet'),
    test: path.join(folder, 'test.parquet'),
    model: path.join(folder, 'model'),
  };
  const easy = problems(8000, seed).filter(({ answer }) => answer.length === '1 + 2 = 3 #### 3'.length);
  const [test, train] = [easy.slice(0, 64).map(inDapoForm), easy.slice(64).map(inDapoForm)];
  const rows = (items, split) => items.map((item, k) => ({ ...row(item, k, split), data_source: 'math_dapo' }));
  await writeParquet(files.train, rows(train, 'train'));
  await writeParquet(files.test, rows(test, 'test'));
  const conversation = ({ question, answer }, isRambling) => [
    { role: 'user', content: question },
    { role: 'assistant', content: isRambling ? `${answer}\n${answer}` : answer },
  ];
  await makeTinyModel(files.model, {
    texts: easy.map(inDapoForm).flatMap(({ question, answer }) => [`user ${question}`, `assistant ${answer}`, answer]),
    makeExample: (draw, tokenizer, done) =>
      chatExample(tokenizer, conversation(train[draw(train.length)], done > 0.5 && draw(10) < 6)),
    steps: sftSteps,
    seed,
    onStep,
  });
  return files;
}

if (import.meta.filename === process.argv[1]) {
  const files = await prepare(process.argv[2] ?? 'runs/math-dapo/start', { onStep: progress() });
  console.log(`wrote ${Object.values(files).join(', ')}`);
}
