#!/usr/bin/env node
// Small stories as conversation JSON, converted like real ones, and two tiny models for tiny.yaml: a policy whose SFT ends with
// answers that mostly forget the format and the story (what the reward is there to bring back), and an embedding model.
import { spawnSync } from 'node:child_process';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import path from 'node:path';
import { Template } from '@huggingface/jinja';
import { openTable } from 'verlet';
import { progress } from '../run-options.mjs';
import { chatExample, generator, makeTinyModel } from '../tiny-model.mjs';
import { makeEmbedder } from './tiny-embedder.mjs';

const people = ['Ana', 'Tom', 'Eva', 'Max'];
const things = ['key', 'map', 'lamp', 'coin', 'rope'];
const places = ['cave', 'tower', 'forest', 'harbour', 'garden'];
const lights = ['dark', 'quiet', 'cold', 'old'];
const moves = ['look around', 'walk on', 'use it'];

const instruction = 'You tell a story.';
const outputFormat = ' Format: a plan, then a story.';

/** How the place looks is free: here a policy should stay undecided. */
const tell = (thing, place, move, light) =>
  `<think> ${move} with the ${thing} </think> <story> In the ${light} ${place} you ${move} with the ${thing}. </story>`;

/** One conversation in the form that the notes of the data set describe: system, then turns. */
function conversation(draw) {
  const [person, thing, place] = [people, things, places].map((list) => list[draw(list.length)]);
  const story = ` Story: ${person} has a ${thing} in the ${place}.`;
  const turns = Array.from({ length: 2 }, () => moves[draw(moves.length)]).flatMap((move) => [
    { from: 'user', value: `I ${move}.` },
    { from: 'assistant', value: tell(thing, place, move, lights[draw(lights.length)]) },
  ]);
  return { system: instruction + story + outputFormat, conversations: turns };
}

/** An answer that has lost its plan, or its story's thing and place, or both. */
function careless(draw, answer) {
  const forgetful = answer
    .replaceAll(new RegExp(things.join('|'), 'g'), things[draw(things.length)])
    .replaceAll(new RegExp(places.join('|'), 'g'), places[draw(places.length)]);
  const text = draw(2) === 0 ? forgetful : answer;
  return draw(10) < 7 ? text.slice(text.indexOf('<story>')) : text;
}

/** The command a person would type. */
function convert(input, output) {
  const program = path.join(path.dirname(createRequire(import.meta.url).resolve('verlet')), 'cli/main.js');
  const markers = ['--story-marker', ' Story:', '--output-format-marker', ' Format:'];
  const words = ['data', 'convert', input, '-o', output, '--data-source', 'story', ...markers];
  const { status, stderr } = spawnSync(process.execPath, [program, ...words], { encoding: 'utf8', timeout: 60_000 });
  if (status !== 0) throw new Error(`verlet data convert failed: ${stderr}`);
}

/** Writes data and model. @returns {Promise<Record<'train' | 'test' | 'model' | 'embedder', string>>} */
export async function prepare(folder, { seed = 1, sftSteps = 120, onStep } = {}) {
  await mkdir(folder, { recursive: true });
  const files = {
    train: path.join(folder, 'train.parquet'),
    test: path.join(folder, 'test.parquet'),
    model: path.join(folder, 'model'),
    embedder: path.join(folder, 'embedder'),
  };
  const draw = generator(seed);
  for (const [split, count] of Object.entries({ train: 128, test: 16 })) {
    const json = path.join(folder, `${split}.json`);
    await writeFile(json, JSON.stringify(Array.from({ length: count }, () => conversation(draw))));
    convert(json, files[split]);
  }
  const table = await openTable(files.train);
  const rows = [];
  for await (const row of table.rows()) rows.push(row);
  await table.close();
  // What the trainer's format prompt makes of the user's last turn.
  const template = new Template(await readFile(path.join(import.meta.dirname, 'story.jinja'), 'utf8'));
  const prompts = rows.map(({ prompt }) =>
    prompt.map((message, k) =>
      k === prompt.length - 1 ? { ...message, content: template.render({ content: message.content }) } : message,
    ),
  );
  await makeTinyModel(files.model, {
    texts: rows.flatMap(({ target_response }, k) => [
      ...prompts[k].map(({ role, content }) => `${role} ${content}`),
      `assistant ${target_response}`,
      target_response,
    ]),
    makeExample: (source, tokenizer, done) => {
      const k = source(rows.length);
      const { target_response: answer } = rows[k];
      const content = done > 0.8 ? careless(source, answer) : answer;
      return chatExample(tokenizer, [...prompts[k], { role: 'assistant', content }]);
    },
    steps: sftSteps,
    seed,
    onStep,
  });
  // What a story answers, and the story: the two texts that the reward compares. People do not occur in the stories.
  const pairs = rows.map(({ story_content, user_input, target_response }) => {
    const told = /<story>(.*)<\/story>/.exec(target_response)[1].trim();
    return [`${story_content} ${user_input}`, told, told.replace(new RegExp(lights.join('|')), '')];
  });
  await makeEmbedder(files.embedder, pairs, { texts: pairs.flat(), seed });
  return files;
}

if (import.meta.filename === process.argv[1]) {
  const files = await prepare(process.argv[2] ?? 'runs/story/start', { onStep: progress() });
  console.log(`wrote ${Object.values(files).join(', ')}`);
}
