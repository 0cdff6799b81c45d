// Scores per second on one thread, as a reward manager calls them. Usage: node bench/scores.mjs [seconds per row]
import {
  createRewardInput,
  defaultScorer,
  NaiveRewardManager,
  scoreFor,
} from '../packages/verlet/dist/rewards/index.js';

const seconds = Number(process.argv[2] ?? 1);
const reasoning = 'First we add the numbers, then we carry the one, and so the total grows by 12 each time. '.repeat(
  20,
);

const rows = [
  ['openai/gsm8k', `${reasoning}\n#### 1,234`, '1234', {}],
  ['openai/gsm8k', `${reasoning}\nIt is 1234`, '1234', { method: 'flexible' }],
  ['lighteval/MATH', `${reasoning} $\\boxed{\\dfrac{3}{4}}$`, '\\frac{3}{4}', {}],
  ['math_dapo', `${reasoning}\nAnswer: $\\frac{3}{4}$`, '\\frac34', {}],
  ['numina_olympiads', `${reasoning} $\\boxed{0.75}$`, '\\frac{3}{4}', {}],
  ['numina_olympiads', `${reasoning} $\\boxed{(x+1)^2}$`, 'x^2+2x+1', {}],
  ['numina_olympiads', `${reasoning} $\\boxed{\\sin 2x}$`, '2\\sin x\\cos x', {}],
  ['searchR1_nq', `<think>${reasoning}</think><answer>The Beatles</answer>`, { target: ['Beatles'] }, {}],
];

function perSecond(task) {
  let count = 0;
  const start = performance.now();
  const end = start + seconds * 1000;
  while (performance.now() < end) {
    for (let i = 0; i < 50; i++) task();
    count += 50;
  }
  return (count / (performance.now() - start)) * 1000;
}

const format = (value) => Math.round(value).toLocaleString('en-US').padStart(12);
console.log(`Node ${process.version}, one thread, responses of about ${reasoning.length} characters`);
for (const [data_source, solution_str, ground_truth, options] of rows) {
  const input = createRewardInput({ data_source, solution_str, ground_truth });
  const score = scoreFor(data_source);
  const answer = solution_str.slice(reasoning.length, reasoning.length + 40).trim();
  console.log(`${format(perSecond(() => score(input, options)))} scores/s  ${data_source.padEnd(20)} ${answer}`);
}

const manager = new NaiveRewardManager(defaultScorer());
const batch = Array.from({ length: 4096 }, (_, index) =>
  createRewardInput({
    data_source: 'openai/gsm8k',
    solution_str: `${reasoning}\n#### ${index}`,
    ground_truth: '7',
    response_ids: [1],
  }),
);
let count = 0;
const start = performance.now();
while (performance.now() - start < seconds * 1000) {
  await manager.score(batch);
  count += batch.length;
}
console.log(
  `${format((count / (performance.now() - start)) * 1000)} scores/s  through the naive manager, batches of ${batch.length}`,
);
