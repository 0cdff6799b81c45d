// A small embedding model for tiny.yaml, made the way real ones are: texts that belong together are pulled together, all others of
// the batch apart. The state of the last token is the vector, as in Qwen3-Embedding.
import { AdamW, aten, clipGradNorm, nn, scope, tensor, zeros } from '@verlet/torch';
import { closedVocabulary, models, saveCausalLM } from 'verlet';
import { generator, newTinyModel } from '../tiny-model.mjs';

const temperature = 0.1;

/** `pairs` are [text, text that belongs to it, key]: those of the same key are never held against each other. */
export async function makeEmbedder(folder, pairs, { texts, steps = 150, batch = 24, learningRate = 4e-3, seed = 1 }) {
  const tokenizer = await closedVocabulary(texts, { folder, spelling: 'characters', chatTemplate: '' });
  const model = newTinyModel(tokenizer, { seed });
  const optimizer = new AdamW(model.namedParameters(), { lr: learningRate, weightDecay: 0.01 });
  const draw = generator(seed + 3);
  for (let step = 1; step <= steps; step++) {
    const chosen = new Map();
    while (chosen.size < batch) {
      const pair = pairs[draw(pairs.length)];
      chosen.set(pair[2], pair);
    }
    const both = [0, 1].flatMap((side) => [...chosen.values()].map((pair) => pair[side]));
    optimizer.lr = learningRate * Math.min(1, step / 20) * (1 - 0.9 * (step / steps));
    contrastiveStep(
      model,
      optimizer,
      both.map((text) => [...tokenizer.encode(text), tokenizer.eosTokenId]),
    );
  }
  await saveCausalLM(model, folder);
  optimizer.dispose();
  model.dispose();
}

/** Rows 0..n-1 belong to rows n..2n-1. */
function contrastiveStep(model, optimizer, rows) {
  const half = rows.length / 2;
  model.clearGradients();
  scope(() => {
    const lengths = rows.map((row) => row.length);
    const ends = lengths.map((_, k) => lengths.slice(0, k + 1).reduce((sum, length) => sum + length, 0) - 1);
    const last = nn.indexTensor(ends, model.device);
    const context = new models.PackedAttention(lengths, model.device);
    const pass = model.model.forwardForTraining(nn.indexTensor(Int32Array.from(rows.flat()), model.device), context);
    const states = pass.hidden.detach().indexSelect(0, last).setRequiresGrad();
    const unit = states.div(states.square().sum([1], true).sqrt());
    const likeness = unit
      .narrow(0, 0, half)
      .matmul(unit.narrow(0, half, half).transpose(0, 1))
      .div(temperature);
    const own = tensor(
      Int32Array.from({ length: half }, (_, k) => k),
      { dtype: 'int64', device: model.device },
    );
    aten
      .cross_entropy_loss(likeness, own)
      .add(aten.cross_entropy_loss(likeness.transpose(0, 1), own))
      .backward();
    pass.backward(zeros(pass.hidden.shape, { device: model.device }).indexAdd_(0, last, states.grad));
    context.dispose();
  });
  const gradients = new Map();
  for (const [name, parameter] of model.namedParameters())
    if (parameter.gradient) gradients.set(name, parameter.gradient);
  clipGradNorm(gradients, 1);
  optimizer.step(gradients);
  model.clearGradients();
}
