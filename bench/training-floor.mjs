// How close the training pass on the CPU comes to its arithmetic: forward and backward of a 4M-parameter Qwen2 over packed
// sequences, beside the same matrix products alone. CPU time of one thread, so that a busy machine does not blur it.
//   OMP_NUM_THREADS=1 node bench/training-floor.mjs [sequences] [repeats]
import { aten, manualSeed, nn, noGrad, randn, scope } from '@verlet/torch';
import { createCausalLM, PackedAttention } from '../packages/verlet/dist/models/index.js';
import { cpuMilliseconds } from './timing.mjs';

const sequences = Number(process.argv[2] ?? 32);
const repeats = Number(process.argv[3] ?? 4);
const shape = { hidden: 256, layers: 4, heads: 4, kvHeads: 2, intermediate: 1024, vocabulary: 512 };
const dim = shape.hidden / shape.heads;

manualSeed(0);
const model = createCausalLM({
  model_type: 'qwen2',
  hidden_size: shape.hidden,
  num_hidden_layers: shape.layers,
  num_attention_heads: shape.heads,
  num_key_value_heads: shape.kvHeads,
  intermediate_size: shape.intermediate,
  vocab_size: shape.vocabulary,
  tie_word_embeddings: true,
});
const lengths = Array.from({ length: sequences }, (_, k) => 80 + ((k * 17) % 41));
const tokens = lengths.reduce((sum, length) => sum + length, 0);
const ids = nn.indexTensor(Array.from({ length: tokens }, (_, k) => (k * 31) % shape.vocabulary));
const outer = randn([tokens]);

function trainingPass() {
  scope(() => {
    const context = new PackedAttention(lengths);
    const pass = model.model.forwardForTraining(ids, context);
    const head = new nn.LogProbHead(pass.hidden, model.headWeight, ids, { train: true });
    head.result.logProbs.dispose();
    pass.backward(head.backward(outer, null, model.headWeight));
    context.dispose();
    model.clearGradients();
  });
}

const product = (inner, out) => ({ x: randn([tokens, inner]), w: randn([out, inner]), g: randn([tokens, out]) });
const layer = [
  product(shape.hidden, (shape.heads + 2 * shape.kvHeads) * dim),
  product(shape.heads * dim, shape.hidden),
  product(shape.hidden, 2 * shape.intermediate),
  product(shape.intermediate, shape.hidden),
];
const head = product(shape.hidden, shape.vocabulary);

function linearProducts() {
  noGrad(() => {
    for (const { x, w, g } of [...Array.from({ length: shape.layers }, () => layer).flat(), head])
      scope(() => {
        aten.linear(x, w);
        g.mm(w);
        g.t().mm(x);
      });
  });
}

const length = Math.round(tokens / sequences);
const rows = randn([sequences, shape.heads, length, dim]);
const pairs = randn([sequences, shape.heads, length, length]);

// Scores and mix forward; scores again and four more backward. A causal kernel needs about half of it.
function attentionProducts() {
  noGrad(() => {
    for (let k = 0; k < shape.layers; k++)
      scope(() => {
        for (let n = 0; n < 3; n++) rows.matmul(rows.transpose(2, 3));
        for (let n = 0; n < 2; n++) pairs.matmul(rows);
        for (let n = 0; n < 2; n++) pairs.transpose(2, 3).matmul(rows);
      });
  });
}

const [pass, linear, attention] = [trainingPass, linearProducts, attentionProducts].map((body) =>
  cpuMilliseconds(body, repeats),
);
console.log(`${model.parameterCount()} parameters, ${sequences} sequences, ${tokens} tokens`);
console.log(`forward + backward          ${pass.toFixed(0)} ms`);
console.log(`its linear products alone   ${linear.toFixed(0)} ms   ratio ${(pass / linear).toFixed(3)}`);
console.log(
  `with those of attention     ${(linear + attention).toFixed(0)} ms   ratio ${(pass / (linear + attention)).toFixed(3)}`,
);
