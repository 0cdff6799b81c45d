// What sharing prompts saves in an update: groups of samples of a 4M-parameter Qwen2, their prompts computed once and computed for
// every row. CPU time of one thread, the least of many repeats, so that a busy machine does not blur it.
//   OMP_NUM_THREADS=1 node bench/shared-prompts.mjs [prompt tokens] [response tokens] [samples] [repeats]
import { AdamW, manualSeed, scope, tensor } from '@verlet/torch';
import { createCausalLM } from '../packages/verlet/dist/models/index.js';
import { DataProto } from '../packages/verlet/dist/protocol/index.js';
import { ActorUpdater } from '../packages/verlet/dist/workers/actor.js';
import { scoreBatch } from '../packages/verlet/dist/workers/language-model-worker.js';
import { MetricList } from '../packages/verlet/dist/workers/metric-list.js';
import { cpuMilliseconds } from './timing.mjs';

const [promptTokens = 29, responseTokens = 64, samples = 8, repeats = 5] = process.argv.slice(2).map(Number);
const prompts = 16;
const rows = prompts * samples;
const width = promptTokens + responseTokens;
const vocabulary = 512;

manualSeed(0);
const model = createCausalLM({
  model_type: 'qwen2',
  hidden_size: 256,
  intermediate_size: 1024,
  num_hidden_layers: 4,
  num_attention_heads: 4,
  num_key_value_heads: 4,
  vocab_size: vocabulary,
  tie_word_embeddings: true,
});
const id = (row, column) =>
  column < promptTokens
    ? (Math.floor(row / samples) * 131 + column * 7) % vocabulary
    : (row * 311 + column * column * 17) % vocabulary;
const cells = (columns, of) =>
  Int32Array.from({ length: rows * columns }, (_, k) => of(Math.floor(k / columns), k % columns));
const long = (columns, of) => tensor(cells(columns, of), { dtype: 'int64' }).reshape(rows, columns);
const batch = DataProto.fromDict({
  tensors: {
    input_ids: long(width, id),
    attention_mask: long(width, () => 1),
    responses: long(responseTokens, (row, column) => id(row, column + promptTokens)),
    response_mask: long(responseTokens, () => 1),
    advantages: long(responseTokens, (row) => (row % 3) - 1).to('float32'),
  },
});
const optimizer = new AdamW(model.namedParameters(), { lr: 1e-6 });
const updater = new ActorUpdater(model, optimizer, {
  loss_agg_mode: 'token-mean',
  entropy_coeff: 0,
  calculate_entropy: false,
  use_kl_loss: false,
  kl_loss_coef: 0,
  kl_loss_type: 'low_var_kl',
  grad_clip: 1,
  clip_ratio: 0.2,
  policy_loss: { loss_mode: 'vanilla' },
});
const microBatches = [Array.from({ length: rows }, (_, k) => k)];

function update(sharePrompts) {
  const options = { temperature: 1, recompute: false, dpSize: 1, sumOverRanks: (x) => x, sharePrompts };
  scope(() => updater.step(batch, microBatches, new MetricList(), options));
}

function score(sharePrompts) {
  const { logProbs, entropy } = scoreBatch(model, batch, { microBatches, temperature: 1, entropy: true, sharePrompts });
  logProbs.dispose();
  entropy.dispose();
}

console.log(
  `${prompts} prompts of ${promptTokens} tokens, ${samples} samples of ${responseTokens}; least CPU time of ${repeats}`,
);
const tokens = { false: rows * width, true: prompts * promptTokens + rows * responseTokens };
for (const sharePrompts of [false, true]) {
  const [updated, scored] = [update, score].map((body) => cpuMilliseconds(() => body(sharePrompts), repeats));
  console.log(
    `${sharePrompts ? 'computed once' : 'for every row'}   ${tokens[sharePrompts]} tokens   update ${updated.toFixed(0)} ms   scores ${scored.toFixed(0)} ms`,
  );
}
