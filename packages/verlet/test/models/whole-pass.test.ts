/** A training pass in two native calls gives what the layers give one by one. */
import { aten, getThreads, liveTensors, nn, noGrad, ones, scope, setThreads, type Tensor } from '@verlet/torch';
import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import { applyLora, type CausalLM, loadCausalLM, PackedAttention } from '../../src/models/index.js';
import { canPassWhole, layerWeights } from '../../src/models/whole-pass.js';
import { families, fixtureFolder, maxDifference } from './fixture.js';

interface Batch {
  lengths: number[];
  prefixes: number[];
  wanted: number[];
}

/** Hidden states and gradients, by name. */
function passed(model: CausalLM, { lengths, prefixes, wanted }: Batch, whole: boolean): Map<string, Tensor> {
  return scope(() => {
    model.clearGradients();
    const context = new PackedAttention(lengths, 'cpu', prefixes);
    const tokens = lengths.reduce((sum, length) => sum + length, 0);
    const ids = nn.indexTensor(Int32Array.from({ length: tokens }, (_, k) => (k * 7 + 3) % model.config.vocabSize));
    const options = { whole, ...(wanted.length > 0 ? { rows: nn.indexTensor(wanted) } : {}) };
    expect(canPassWhole(model.model, context, options)).toBe(whole);
    const pass = model.model.forwardForTraining(ids, context, options);
    const results = new Map([['hidden', pass.hidden.clone()]]);
    // A pass that is not walked back is the same pass.
    const alone = model.model.forward(ids, context, options.rows ?? null, whole);
    expect(maxDifference(alone, pass.hidden)).toBeLessThan(whole ? 1e-30 : 1e-5);
    pass.backward(pass.hidden.cos());
    for (const [name, parameter] of model.namedParameters())
      if (parameter.gradient) results.set(name, parameter.gradient.clone());
    context.dispose();
    model.clearGradients();
    return results;
  });
}

function expectClose(got: Map<string, Tensor>, wanted: Map<string, Tensor>): void {
  expect([...got.keys()]).toEqual([...wanted.keys()]);
  for (const [name, tensor] of got)
    scope(() => {
      const expected = wanted.get(name)!;
      const size = Math.max(1, expected.abs().max().item());
      expect(maxDifference(tensor, expected) / size, name).toBeLessThan(2e-5);
    });
}

/** Prompts, each with some answers, and lone sequences; every predicting token is wanted, the last of a prompt by each answer. */
const batches = fc
  .array(
    fc.record({
      prompt: fc.integer({ min: 1, max: 70 }),
      answers: fc.array(fc.integer({ min: 0, max: 60 }), { maxLength: 4 }),
    }),
    { minLength: 1, maxLength: 5 },
  )
  .map((groups): Batch => {
    const lengths = groups.map(({ prompt }) => prompt);
    const prefixes = groups.map(() => -1);
    for (const [k, { answers }] of groups.entries())
      for (const answer of answers) {
        lengths.push(answer);
        prefixes.push(k);
      }
    const wanted: number[] = [];
    let start = 0;
    const ends = lengths.map((length) => {
      start += length;
      return start - 1;
    });
    for (const [k, length] of lengths.entries()) {
      const prefix = prefixes[k]!;
      if (prefix >= 0 && length > 0) wanted.push(ends[prefix]!);
      for (let t = Math.max(0, length - 20); t < length; t++) wanted.push(ends[k]! - length + 1 + t);
    }
    return { lengths, prefixes: prefixes.some((prefix) => prefix >= 0) ? prefixes : [], wanted };
  });

describe.each(families.filter((family) => family !== 'llama-biases'))('a whole pass of %s', (family) => {
  const loaded = loadCausalLM(fixtureFolder(family));
  afterAll(async () => (await loaded).dispose());

  it('equals the layers, with shared prompts and tokens wanted many times', async () => {
    const model = await loaded;
    fc.assert(
      fc.property(batches, (batch) =>
        scope(() => expectClose(passed(model, batch, true), passed(model, batch, false))),
      ),
      { numRuns: 12 },
    );
  });
});

describe('a whole pass', () => {
  const loaded = loadCausalLM(fixtureFolder('qwen3'));
  afterAll(async () => (await loaded).dispose());
  const batch = {
    lengths: [30, 20, 110, 90, 25],
    prefixes: [-1, -1, 0, 0, 1],
    wanted: Array.from({ length: 100 }, (_, k) => 50 + k),
  };

  it('gives the same bits again, and nearly so with another number of threads', async () => {
    const model = await loaded;
    const threads = getThreads();
    try {
      setThreads(2);
      const first = passed(model, batch, true);
      for (const [name, tensor] of passed(model, batch, true)) expect(tensor.equal(first.get(name)!), name).toBe(true);
      setThreads(3);
      expectClose(passed(model, batch, true), first);
    } finally {
      setThreads(threads);
    }
  });

  it('frees all it kept, whichever way it ends', async () => {
    const model = await loaded;
    scope(() => {
      const context = new PackedAttention([20, 30]);
      const ids = nn.indexTensor(Int32Array.from({ length: 50 }, (_, k) => k % 40));
      model.model.reservePositions(64);
      const before = liveTensors().count;
      scope(() => model.model.forwardForTraining(ids, context, { whole: true }).dispose());
      expect(liveTensors().count).toBe(before);
      scope(() => {
        const pass = model.model.forwardForTraining(ids, context, { whole: true });
        pass.backward(pass.hidden.clone());
      });
      model.clearGradients();
      context.dispose();
      expect(liveTensors().count).toBe(before - 1);
    });
  });

  it('refuses a last norm of another width, and more heads than can be', async () => {
    const { model } = await loaded;
    model.reservePositions(4);
    const { config, rotaryTables, embed_tokens, layers } = model;
    scope(() => {
      const [one, none] = [nn.indexTensor([0]), nn.indexTensor([])];
      const weights = noGrad(() => layerWeights(model, ({ weight }) => aten.verlet_pack_weight(weight.detach())));
      const forward = (norm: Tensor, heads = config.numHeads) =>
        aten.verlet_decoder_forward(
          one,
          one,
          [1],
          [],
          none,
          embed_tokens.weight.detach(),
          norm,
          weights,
          rotaryTables.cos,
          rotaryTables.sin,
          heads,
          config.numKvHeads,
          config.intermediateSize,
          layers.map(() => 0),
          config.rmsNormEps,
        );
      expect(forward(ones([config.hiddenSize]))[0].shape).toEqual([0, config.hiddenSize]);
      expect(() => forward(ones([config.hiddenSize - 1]))).toThrow(/the last norm must be/);
      expect(() => forward(ones([config.hiddenSize]), 2 ** 62)).toThrow(/there cannot be 4611686018427387904 heads/);
    });
  });

  it('leaves models with adapters or other biases, unequal work and recomputation to the layers', async () => {
    const model = await loaded;
    const equal = new PackedAttention([20, 20, 20, 20]);
    const threads = getThreads();
    try {
      setThreads(2);
      expect(canPassWhole(model.model, equal, {})).toBe(true);
      expect(canPassWhole(model.model, equal, { recompute: true })).toBe(false);
      expect(canPassWhole(model.model, new PackedAttention([200, 20]), {})).toBe(false);
      const biased = await loadCausalLM(fixtureFolder('llama-biases'));
      expect(canPassWhole(biased.model, equal, { whole: true })).toBe(false);
      biased.dispose();
      const adapted = await loadCausalLM(fixtureFolder('qwen2'));
      applyLora(adapted, { rank: 2 });
      expect(canPassWhole(adapted.model, equal, { whole: true })).toBe(false);
      adapted.dispose();
    } finally {
      setThreads(threads);
      equal.dispose();
    }
  });
});
