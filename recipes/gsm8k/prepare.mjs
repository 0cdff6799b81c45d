#!/usr/bin/env node
// Word problems in GSM8K's format and a tiny model for tiny.yaml. Its SFT ends with answers that mostly lack the `####` line: it
// can count, and reinforcement has to find out how an answer is written.
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { writeParquet } from 'verlet';
import { problems, row } from '../quickstart/data.mjs';
import { progress } from '../run-options.mjs';
import { chatExample, makeTinyModel } from '../tiny-model.mjs';

/** Writes data and model. @returns {Promise<{ model: string, train: string, test: string }>} */
export async function prepare(folder, { seed = 1, sftSteps = 200, onStep } = {}) {
  await mkdir(folder, { recursive: true });
  const files = {
    train: path.join(folder, 'train.parquet'),
    test: path.join(folder, 'test.parquet'),
    model: path.join(folder, 'model'),
  };
  // One digit is enough here: quickstart has the larger numbers and takes minutes.
  const easy = problems(8000, seed).filter(({ answer }) => answer.length === '1 + 2 = 3 #### 3'.length);
  const [test, train] = [easy.slice(0, 64), easy.slice(64)];
  const rows = (items, split) => items.map((item, k) => row(item, k, split));
  await writeParquet(files.train, rows(train, 'train'));
  await writeParquet(files.test, rows(test, 'test'));
  const conversation = ({ question, answer }, isUnfinished) => [
    { role: 'user', content: question },
    { role: 'assistant', content: isUnfinished ? answer.slice(0, answer.indexOf(' ####')) : answer },
  ];
  await makeTinyModel(files.model, {
    texts: [...train, ...test].flatMap(({ question, answer }) => [`user ${question}`, `assistant ${answer}`, answer]),
    makeExample: (draw, tokenizer, done) =>
      chatExample(tokenizer, conversation(train[draw(train.length)], done > 0.75 && draw(10) < 8)),
    steps: sftSteps,
    seed,
    onStep,
  });
  return files;
}

if (import.meta.filename === process.argv[1]) {
  const files = await prepare(process.argv[2] ?? 'runs/gsm8k/start', { onStep: progress() });
  console.log(`wrote ${Object.values(files).join(', ')}`);
}
