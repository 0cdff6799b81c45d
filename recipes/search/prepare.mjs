// A few hundred made-up facts that no model can know: a corpus to search in, questions about it, and a model that has seen the
// format of a search but not one of the facts.
import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { agents, writeParquet } from 'verlet';
import { generator, lineTemplate, makeTinyModel, textExample } from '../tiny-model.mjs';

const places = 'Zor Bel Kam Dun Fey Gor Hal Ister Jun Kel Lor Mir Nar Osk Pel Quor'.split(' ');
const kinds = 'Vale Ridge Marsh Holm Reach Point Fields Gate Moor Isle Bay Wood Cross Hill Bridge Haven'.split(' ');
const given = 'Ada Boris Clio Doro Edmo Fina Gino Hela Ivor Juna Kurt Lida Milo Nora Otto Pia'.split(' ');
const family = 'Ash Birch Cole Drake Elm Frost Grey Hart Iver Jarl Knox Lund Moss Nash Orr Penn'.split(' ');

const question = (place) => `Who founded ${place}?`;
const query = (place) => `<search> founder of ${place} </search>`;
const answer = (founder) => `<answer> ${founder} </answer>`;
const contents = (place, founder) => `${place}\nThe founder of ${place} was ${founder}.`;
const information = (place, founder) => {
  const document = { id: '0', contents: contents(place, founder) };
  return `\n\n<information>${agents.passagesToString([{ document, score: 1 }])}</information>\n\n`;
};

const pick = (draw, words) => words[draw(words.length)];
const aPlace = (draw) => `${pick(draw, places)} ${pick(draw, kinds)}`;
const aFounder = (draw) => `${pick(draw, given)} ${pick(draw, family)}`;

/** As in recipes/tool-agent: first how to search, then mostly guesses. The facts of the SFT are thrown away each time. */
const searchShare = (done) => (done < 0.75 ? 1 : 0.2);

function sftExample(draw, tokenizer, done) {
  const [place, founder] = [aPlace(draw), aFounder(draw)];
  const prompt = [{ role: 'user', content: question(place) }];
  if (draw(1000) >= searchShare(done) * 1000)
    return textExample(tokenizer, prompt, [{ text: answer(founder), learnt: true }]);
  return textExample(tokenizer, prompt, [
    { text: query(place), learnt: true },
    { text: information(place, founder), learnt: false },
    { text: answer(founder), learnt: true },
  ]);
}

const row = ({ place, founder }, index, split) => ({
  data_source: 'searchR1_nq',
  agent_name: 'search_agent',
  prompt: [{ role: 'user', content: question(place) }],
  ability: 'fact-reasoning',
  reward_model: { style: 'rule', ground_truth: { target: [founder] } },
  extra_info: { split, index },
});

/** Writes data, corpus and model. @returns {Promise<{ model: string, train: string, test: string, corpus: string }>} */
export async function prepare(folder, { seed = 1, sftSteps = 200, onStep } = {}) {
  await mkdir(folder, { recursive: true });
  const files = {
    train: path.join(folder, 'train.parquet'),
    test: path.join(folder, 'test.parquet'),
    corpus: path.join(folder, 'corpus.jsonl'),
    model: path.join(folder, 'model'),
  };
  const draw = generator(seed);
  const facts = places.flatMap((name) =>
    kinds.map((kind) => ({ place: `${name} ${kind}`, founder: aFounder(draw), order: draw(1 << 20) })),
  );
  facts.sort((a, b) => a.order - b.order);
  const held = facts.slice(0, 48);
  await writeParquet(
    files.test,
    held.map((fact, k) => row(fact, k, 'test')),
  );
  await writeParquet(
    files.train,
    facts.slice(48).map((fact, k) => row(fact, k, 'train')),
  );
  const lines = facts.map(({ place, founder }, id) => JSON.stringify({ id, contents: contents(place, founder) }));
  await writeFile(files.corpus, `${lines.join('\n')}\n`);

  const everyWord = Array.from({ length: 16 }, (_, k) => [`${places[k]} ${kinds[k]}`, `${given[k]} ${family[k]}`]);
  const texts = everyWord.flatMap(([place, founder]) => [
    `user\n${question(place)}`,
    query(place),
    information(place, founder),
    answer(founder),
  ]);
  await makeTinyModel(files.model, {
    texts: [...texts, 'assistant\n'],
    makeExample: sftExample,
    chatTemplate: lineTemplate,
    steps: sftSteps,
    seed,
    onStep,
  });
  return files;
}
