/** Computing activations again changes what is kept, and nothing else. */
import { liveTensors, nn, noGrad, scope, type Tensor } from '@verlet/torch';
import { afterAll, describe, expect, it } from 'vitest';
import {
  applyLora,
  type CausalLM,
  loadCausalLM,
  PackedAttention,
  type Recompute,
  type RecomputeChoice,
  recomputePlan,
} from '../../src/models/index.js';
import { expectedOf, families, fixtureFolder, maxDifference, trainingPass } from './fixture.js';

const modes: readonly Recompute[] = ['none', 'selective', 'full'];

/** Copies of the gradients that one pass leaves. */
function gradients(model: CausalLM, rows: number[][], recompute: RecomputeChoice): Map<string, Tensor> {
  model.clearGradients();
  trainingPass(model, rows, (logits) => logits.logsumexp(-1).sum(), { recompute, whole: false });
  const found = new Map<string, Tensor>();
  for (const [name, parameter] of model.namedParameters())
    if (parameter.gradient) found.set(name, parameter.gradient.clone().keep());
  model.clearGradients();
  return found;
}

function expectSameBits(got: Map<string, Tensor>, wanted: Map<string, Tensor>): void {
  expect([...got.keys()]).toEqual([...wanted.keys()]);
  for (const [name, gradient] of got) expect(gradient.equal(wanted.get(name)!), name).toBe(true);
}

describe.each(families)('recomputation in %s', (family) => {
  it('gives the same bits in every mode, also behind adapters', async () => {
    const model = await loadCausalLM(fixtureFolder(family));
    const { rows } = expectedOf(family);
    const wanted = gradients(model, rows, 'none');
    expect(wanted.size).toBe([...model.parameters()].length);
    for (const recompute of ['selective', 'full', true, false, { mode: 'full', layers: 1 }] as const)
      expectSameBits(gradients(model, rows, recompute), wanted);
    const lora = applyLora(model, { rank: 4 });
    for (const [, adapter] of lora.adapters()) noGrad(() => scope(() => adapter.lora_B.detach().fill_(0.01)));
    const adapted = gradients(model, rows, 'none');
    expect(adapted.size).toBe(2 * lora.places.length);
    for (const recompute of ['selective', 'full'] as const) expectSameBits(gradients(model, rows, recompute), adapted);
    model.dispose();
  });
});

describe('rows that are wanted', () => {
  it('give the states and gradients of picking them afterwards, in every mode', async () => {
    const model = await loadCausalLM(fixtureFolder('qwen3'));
    const { rows } = expectedOf('qwen3');
    const ids = rows.flat();
    const wanted = [3, 0, 3, ids.length - 1];
    const passes = modes.flatMap((recompute) =>
      [true, false].map((early) =>
        scope(() => {
          model.clearGradients();
          const context = new PackedAttention(rows.map((row) => row.length));
          const index = nn.indexTensor(wanted);
          const pass = model.model.forwardForTraining(nn.indexTensor(ids), context, {
            recompute,
            whole: false,
            ...(early ? { rows: index } : {}),
          });
          const hidden = (early ? pass.hidden : pass.hidden.indexSelect(0, index)).clone();
          const slope = hidden.cos();
          pass.backward(early ? slope : pass.hidden.mul(0).indexAdd(0, index, slope));
          context.dispose();
          return [hidden, ...[...model.model.parameters()].map((parameter) => parameter.gradient!.clone())];
        }),
      ),
    );
    const [early, late] = passes as [Tensor[], Tensor[]];
    for (const pass of passes.filter((_, k) => k % 2 === 0))
      expect(pass.every((tensor, k) => tensor.equal(early[k]!))).toBe(true);
    for (const [k, tensor] of early.entries()) expect(maxDifference(tensor, late[k]!)).toBeLessThan(1e-5);
    model.dispose();
  });
});

describe('the keys of the configuration', () => {
  const keys = {
    enable_gradient_checkpointing: true,
    recompute_granularity: 'selective' as const,
    recompute_num_layers: 3,
  };
  it('recompute on a device, in the layers that they name, and not on the CPU', () => {
    expect(recomputePlan(keys, 'cuda:0')).toEqual({ mode: 'selective', layers: 3 });
    expect(recomputePlan({ ...keys, enable_gradient_checkpointing: false }, 'cuda:0')).toEqual({ mode: 'none' });
    expect(recomputePlan(keys, 'cpu')).toEqual({ mode: 'none' });
  });
});

describe('what a pass keeps', () => {
  const loaded = loadCausalLM(fixtureFolder('qwen2'));
  afterAll(async () => (await loaded).dispose());

  it('shrinks from mode to mode, and is all freed by backward or dispose', async () => {
    const model = await loaded;
    const lengths = [40, 24];
    model.model.reservePositions(64);
    const ids = Int32Array.from({ length: 64 }, (_, k) => k % 40);
    const bytes = modes.map((recompute) =>
      scope(() => {
        const context = new PackedAttention(lengths);
        const inputIds = nn.indexTensor(ids);
        const before = liveTensors();
        const pass = model.model.forwardForTraining(inputIds, context, { recompute, whole: false });
        const kept = liveTensors().bytes - before.bytes;
        pass.dispose();
        expect(liveTensors().count).toBe(before.count);

        const again = model.model.forwardForTraining(inputIds, context, { recompute, whole: false });
        again.backward(again.hidden.clone());
        model.clearGradients();
        context.dispose();
        return kept;
      }),
    );
    const { numLayers, hiddenSize, intermediateSize } = model.config;
    expect(bytes[2]).toBeLessThan(0.5 * bytes[1]!);
    // At least the wide projection of every layer is gone.
    expect(bytes[0]! - bytes[1]!).toBeGreaterThanOrEqual(numLayers * 64 * 2 * intermediateSize * 4);
    expect(bytes[2]).toBeLessThanOrEqual((numLayers + 3) * 64 * hiddenSize * 4);
  });
});
