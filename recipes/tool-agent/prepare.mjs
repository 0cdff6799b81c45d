// A task that a tiny model cannot do in its head and a calculator can: products of two numbers.
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { writeParquet } from 'verlet';
import { chatExample, generator, lineTemplate, makeTinyModel } from '../tiny-model.mjs';

export const question = (a, b) => `What is ${a} * ${b}?`;

export const toolCall = (a, b) =>
  `<tool_call>{"name": "calculator", "arguments": {"expression": "${a}*${b}"}}</tool_call>`;

/**
 * The SFT first shows how the tool is used, then mostly guesses: the model can do both and prefers to guess. Reinforcement
 * has to find out which of the two pays.
 */
const toolShare = (progress) => (progress < 0.75 ? 1 : 0.2);

function conversation(draw, largest, share) {
  const [a, b] = [2 + draw(largest - 1), 2 + draw(largest - 1)];
  const user = { role: 'user', content: question(a, b) };
  if (draw(1000) >= share * 1000) return [user, { role: 'assistant', content: `#### ${4 + draw(largest ** 2 - 3)}` }];
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
export async function prepare(folder, { seed = 1, largest = 19, sftSteps = 160, onStep } = {}) {
  await mkdir(folder, { recursive: true });
  const files = {
    train: path.join(folder, 'train.parquet'),
    test: path.join(folder, 'test.parquet'),
    model: path.join(folder, 'model'),
  };
  const pairs = [];
  for (let a = 2; a <= largest; a++) for (let b = 2; b <= largest; b++) pairs.push([a, b]);
  const draw = generator(seed);
  for (let k = pairs.length - 1; k > 0; k--) {
    const other = draw(k + 1);
    [pairs[k], pairs[other]] = [pairs[other], pairs[k]];
  }
  const held = Math.floor(pairs.length / 8);
  const rows = (part, split) => part.map(([a, b], k) => row(a, b, k, split));
  await writeParquet(files.train, rows(pairs.slice(held), 'train'));
  await writeParquet(files.test, rows(pairs.slice(0, held), 'test'));
  const texts = pairs.flatMap(([a, b]) => [
    `user\n${question(a, b)}`,
    toolCall(a, b),
    `tool\n${a * b}`,
    `#### ${a * b}`,
  ]);
  await makeTinyModel(files.model, {
    texts: [...texts, 'assistant\n'],
    makeExample: (source, tokenizer, done) => chatExample(tokenizer, conversation(source, largest, toolShare(done))),
    chatTemplate: lineTemplate,
    steps: sftSteps,
    seed,
    onStep,
  });
  return files;
}
