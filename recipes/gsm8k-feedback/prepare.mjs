// Sums in GSM8K's format for a model that can add and is careless: it often answers anything, or forgets the `####`.
// The other side of the conversation says what was wrong, and the model may try again.
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { agents, writeParquet } from 'verlet';
import { chatExample, generator, lineTemplate, makeTinyModel } from '../tiny-model.mjs';

const question = (a, b) => `Tom has ${a} pens and buys ${b} more. How many pens now?`;

/** As in recipes/tool-agent: first how to do it right, then mostly how not to. */
const careShare = (done) => (done < 0.75 ? 1 : 0.25);

function attempt(draw, sum, care, largest) {
  if (draw(1000) < care * 1000) return `#### ${sum}`;
  return draw(4) === 0 ? `${sum}` : `#### ${draw(2 * largest + 1)}`;
}

function conversation(draw, largest, done) {
  const [a, b] = [draw(largest + 1), draw(largest + 1)];
  const messages = [{ role: 'user', content: question(a, b) }];
  // One conversation in three begins with a mistake, so that feedback is known from the start.
  const first = draw(3) === 0 ? 0 : careShare(done);
  for (let turn = 0; turn < 2; turn++) {
    const content = attempt(draw, a + b, turn === 0 ? first : careShare(done), largest);
    const verdict = agents.judgeGsm8k(content, String(a + b));
    messages.push({ role: 'assistant', content });
    if (verdict.terminate || turn === 1) break;
    messages.push({ role: 'user', content: verdict.text });
  }
  return messages;
}

const row = ([a, b], index, split) => ({
  data_source: 'openai/gsm8k',
  agent_name: 'interaction_agent',
  prompt: [{ role: 'user', content: question(a, b) }],
  ability: 'math',
  reward_model: { style: 'rule', ground_truth: String(a + b) },
  extra_info: { split, index, interaction_kwargs: { name: 'gsm8k', ground_truth: String(a + b) } },
});

/** Writes data and model. @returns {Promise<{ model: string, train: string, test: string }>} */
export async function prepare(folder, { seed = 1, largest = 9, sftSteps = 240, onStep } = {}) {
  await mkdir(folder, { recursive: true });
  const files = {
    train: path.join(folder, 'train.parquet'),
    test: path.join(folder, 'test.parquet'),
    model: path.join(folder, 'model'),
  };
  const numbers = Array.from({ length: largest + 1 }, (_, k) => k);
  const pairs = numbers.flatMap((a) => numbers.map((b) => [a, b]));
  // The model has learnt all sums; what is tested is its care, on the same ones.
  const rows = (split) => pairs.map((pair, k) => row(pair, k, split));
  await writeParquet(files.train, rows('train'));
  await writeParquet(files.test, rows('test'));
  const draw = generator(seed);
  const spoken = Array.from({ length: 400 }, () => conversation(draw, largest, 1)).flat();
  await makeTinyModel(files.model, {
    texts: spoken.map(({ role, content }) => (role === 'user' ? `user\n${content}` : content)).concat('assistant\n'),
    makeExample: (source, tokenizer, done) => chatExample(tokenizer, conversation(source, largest, done)),
    chatTemplate: lineTemplate,
    steps: sftSteps,
    seed,
    onStep,
  });
  return files;
}
