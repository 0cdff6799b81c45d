// A task that a tiny model cannot do in its head and a calculator can: products of numbers up to 19.
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { writeParquet } from 'verlet';
import { chatExample, generator, makeTinyModel } from '../tiny-model.mjs';

export const question = (a, b) => `What is ${a} * ${b}?`;

export const toolCall = (a, b) =>
  `<tool_call>{"name": "calculator", "arguments": {"expression": "${a}*${b}"}}</tool_call>`;

/** How often the SFT shows the tool; otherwise it shows a guess. Reinforcement has to find out which of the two pays. */
const TOOL_SHARE = 0.2;

function conversation(draw) {
  const [a, b] = [2 + draw(18), 2 + draw(18)];
  const user = { role: 'user', content: question(a, b) };
  if (draw(1000) >= TOOL_SHARE * 1000) return [user, { role: 'assistant', content: `#### ${4 + draw(358)}` }];
  return [
    user,
    { role: 'assistant', content: toolCall(a, b) },
    { role: 'tool', content: String(a * b) },
    { role: 'assistant', content: `#### ${a * b}` },
  ];
}

const row = (a, b, index, split) => ({
  data_source: 'openai/gsm8k',
  agent_name: 'tool_agent',
  prompt: [{ role: 'user', content: question(a, b) }],
  ability: 'math',
  reward_model: { style: 'rule', ground_truth: String(a * b) },
  extra_info: { split, index },
});

/** Writes data and model. @returns {Promise<{ model: string, train: string, test: string }>} */
export async function prepare(folder, { seed = 1, sftSteps = 200, onStep } = {}) {
  await mkdir(folder, { recursive: true });
  const files = {
    train: path.join(folder, 'train.parquet'),
    test: path.join(folder, 'test.parquet'),
    model: path.join(folder, 'model'),
  };
  const pairs = [];
  for (let a = 2; a < 20; a++) for (let b = 2; b < 20; b++) pairs.push([a, b]);
  const draw = generator(seed);
  pairs.sort(() => draw(2) - 0.5);
  const rows = (part, split) => part.map(([a, b], k) => row(a, b, k, split));
  await writeParquet(files.train, rows(pairs.slice(32), 'train'));
  await writeParquet(files.test, rows(pairs.slice(0, 32), 'test'));
  const texts = pairs.flatMap(([a, b]) => [`user ${question(a, b)}`, toolCall(a, b), `tool ${a * b}`, `#### ${a * b}`]);
  await makeTinyModel(files.model, {
    texts: [...texts, 'assistant '],
    makeExample: (source, tokenizer) => chatExample(tokenizer, conversation(source)),
    steps: sftSteps,
    seed,
    onStep,
  });
  return files;
}
