/** The same numbers as transformers, for every family: packed, alone, cached, and in gradients. */
import { nn, noGrad, scope, type Tensor } from '@verlet/torch';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  type CausalLM,
  loadCausalLM,
  loadValueModel,
  PackedAttention,
  SequenceClassifier,
} from '../../src/models/index.js';
import { RolloutEngine } from '../../src/rollout/engine.js';
import {
  type Expected,
  expectedOf,
  families,
  fixtureFolder,
  maxDifference,
  packedLogits,
  trainingPass,
} from './fixture.js';

const tolerance = 1e-4;

describe.each(families)('%s', (family) => {
  let model: CausalLM;
  let expected: Expected;
  beforeAll(async () => {
    model = await loadCausalLM(fixtureFolder(family));
    expected = expectedOf(family);
  });
  afterAll(() => model.dispose());

  it('gives the logits of packed sequences', () => {
    expect(maxDifference(packedLogits(model, expected.rows), expected.tensor('logits'))).toBeLessThan(tolerance);
  });

  it('gives the logits of each sequence alone', () => {
    let start = 0;
    for (const row of expected.rows) {
      const own = expected.tensor('logits').narrow(0, start, row.length);
      expect(maxDifference(packedLogits(model, [row]), own)).toBeLessThan(tolerance);
      start += row.length;
    }
  });

  it.each(['none', 'selective', 'full'] as const)(
    'gives the gradient of every parameter, recompute %s',
    (recompute) => {
      model.clearGradients();
      trainingPass(model, expected.rows, (logits) => nextTokenLoss(logits, expected), { recompute });
      const gradients = gradientEntries(model);
      const wanted = expected.names().filter((name) => name.startsWith('grad.'));
      expect([...gradients.keys()].sort()).toEqual(wanted.map((name) => name.slice('grad.'.length)).sort());
      for (const name of wanted)
        expect(maxDifference(gradients.get(name.slice('grad.'.length))!, expected.tensor(name)), name).toBeLessThan(
          tolerance,
        );
      model.clearGradients();
    },
  );

  it('decodes with a cache as transformers does, token by token and in distribution', async () => {
    const engine = new RolloutEngine(model, {
      maxNumSeqs: 4,
      maxModelLength: 64,
      blockSize: 4,
      maxNumBatchedTokens: 8,
    });
    const { output } = engine.submit({
      promptIds: expected.rows[0]!,
      sampling: { temperature: 0, maxTokens: 24, ignoreEos: true, topLogProbs: 5 },
    });
    const { tokenIds, logProbs, topLogProbs } = await output;
    expect(tokenIds).toEqual(Array.from(expected.tensor('greedy').toInt32Array()));
    const distribution = expected.tensor('greedy_logits').logSoftmax(-1);
    const vocabulary = distribution.size(1);
    const values = distribution.toFloat32Array();
    for (const [k, token] of tokenIds.entries()) {
      expect(Math.abs(logProbs[k]! - values[k * vocabulary + token]!)).toBeLessThan(tolerance);
      for (const { tokenId, logProb } of topLogProbs![k]!)
        expect(Math.abs(logProb - values[k * vocabulary + tokenId]!)).toBeLessThan(tolerance);
    }
    await engine.close();
  });
});

/** The fixture's loss: log-probabilities of the next tokens, each with its own weight. */
function nextTokenLoss(logits: Tensor, expected: Expected): Tensor {
  const weights = expected.tensor('loss_weights');
  const logs = logits.logSoftmax(-1);
  let start = 0;
  const terms: Tensor[] = [];
  for (const row of expected.rows) {
    if (row.length > 1) {
      const targets = nn.indexTensor(row.slice(1)).unsqueeze(1);
      const picked = logs
        .narrow(0, start, row.length - 1)
        .gather(1, targets)
        .squeeze(1);
      terms.push(picked.mul(weights.narrow(0, start, row.length - 1)).sum());
    }
    start += row.length;
  }
  return terms.reduce((sum, term) => sum.add(term));
}

/** Gradients under checkpoint names: parameters are swapped for their gradients while the entries are read. */
function gradientEntries(model: CausalLM): Map<string, Tensor> {
  const before = [...model.parameters()].map((parameter) => parameter.detach().clone());
  noGrad(() => {
    for (const parameter of model.parameters()) parameter.copy_(parameter.gradient!);
  });
  const entries = new Map([...model.stateEntries()].map(([name, value]) => [name, value.detach().clone()]));
  noGrad(() => {
    for (const [k, parameter] of [...model.parameters()].entries()) parameter.copy_(before[k]!);
  });
  return entries;
}

describe('heads that give one number', () => {
  it('values every token as the score head does', async () => {
    const model = await loadValueModel(fixtureFolder('reward'));
    const expected = expectedOf('reward');
    const context = new PackedAttention(expected.rows.map((row) => row.length));
    const values = noGrad(() => model.values(model.model.forward(nn.indexTensor(expected.rows.flat()), context)));
    expect(maxDifference(values, expected.tensor('values'))).toBeLessThan(tolerance);
    context.dispose();
    model.dispose();
  });

  it('scores sequences as a sequence classifier does, padding at the end ignored', async () => {
    const model = await loadValueModel(fixtureFolder('reward'));
    const expected = expectedOf('reward');
    const classifier = new SequenceClassifier('reward', model);
    const scores = classifier.scoreTokens(expected.rows);
    const wanted = expected.tensor('scores').toFloat32Array();
    for (const [k, score] of scores.entries()) expect(Math.abs(score - wanted[k]!)).toBeLessThan(tolerance);
    const padded = classifier.scoreTokens(expected.rows.map((row) => [...row, 0, 0]));
    for (const [k, score] of padded.entries()) expect(Math.abs(score - wanted[k]!)).toBeLessThan(tolerance);
    expect(() => classifier.scoreTokens([[1], []])).toThrow(/sequence 1 has no tokens/);
    classifier.dispose();
  });

  it('starts a fresh value head on the body of a causal model', async () => {
    const model = await loadValueModel(fixtureFolder('llama2'));
    const body = await loadCausalLM(fixtureFolder('llama2'));
    expect(model.model.embed_tokens.weight.equal(body.model.embed_tokens.weight)).toBe(true);
    expect(scope(() => model.score.weight.abs().sum().item())).toBeGreaterThan(0);
    model.dispose();
    body.dispose();
  });
});
