/** Shared prompts on a GPU: the update and the scores are those of whole sequences, within bfloat16. */
import { AdamW, isCudaAvailable, manualSeed, scope, type Tensor, tensor } from '@verlet/torch';
import { describe, expect, it } from 'vitest';
import { createCausalLM, readModelConfig, ValueModel } from '../models/index.js';
import { DataProto } from '../protocol/index.js';
import { ActorUpdater } from './actor.js';
import { CriticUpdater, computeValues } from './critic.js';
import { scoreBatch } from './language-model-worker.js';
import { MetricList } from './metric-list.js';
import type { UpdateOptions } from './optimizer-step.js';
import { SHARED_TOKENS } from './packing.js';

const device = 'cuda:0';
const reason = isCudaAvailable() ? '' : ' (skipped: no CUDA device here)';
const [vocabulary, promptWidth, responseWidth] = [512, 80, 120];
const families = {
  qwen2: { model_type: 'qwen2' },
  qwen3: { model_type: 'qwen3', head_dim: 64 },
  // Rows are longer than the window: they share nothing, and nothing breaks.
  mistral: { model_type: 'mistral', sliding_window: 48 },
};
const shape = {
  vocab_size: vocabulary,
  hidden_size: 256,
  intermediate_size: 512,
  num_hidden_layers: 3,
  num_attention_heads: 4,
  num_key_value_heads: 2,
  initializer_range: 0.05,
  max_position_embeddings: 512,
};

/** Five prompts of four samples, one of which has no response, and a row that shares nothing. */
function makeBatch(): DataProto {
  const lengths = Array.from({ length: 21 }, (_, row) => ({
    prompt: row === 20 ? 9 : [1, 80, 33, 64, 17][Math.floor(row / 4)]!,
    response: row === 6 ? 0 : 1 + ((row * 37) % responseWidth),
    seed: row === 20 ? 99 : Math.floor(row / 4),
  }));
  const width = promptWidth + responseWidth;
  const cells = (of: (row: number, column: number) => number, columns: number) =>
    Array.from({ length: lengths.length * columns }, (_, k) => of(Math.floor(k / columns), k % columns));
  const isReal = (row: number, column: number): boolean =>
    column >= promptWidth - lengths[row]!.prompt && column < promptWidth + lengths[row]!.response;
  const id = (row: number, column: number): number => {
    if (!isReal(row, column)) return 0;
    const seed = column < promptWidth ? lengths[row]!.seed : row + 40;
    return (seed * 131 + column * column * 7 + column) % vocabulary;
  };
  const long = (values: number[], columns: number) =>
    tensor(Int32Array.from(values), { dtype: 'int64' }).reshape(lengths.length, columns);
  const wave = (step: number) =>
    tensor(Float32Array.from(cells((row, k) => Math.sin((row * responseWidth + k) * step), responseWidth))).reshape(
      lengths.length,
      responseWidth,
    );
  const mask = cells((row, k) => (isReal(row, promptWidth + k) ? 1 : 0), responseWidth);
  return DataProto.fromDict({
    tensors: {
      input_ids: long(cells(id, width), width),
      attention_mask: long(
        cells((row, k) => (isReal(row, k) ? 1 : 0), width),
        width,
      ),
      responses: long(
        cells((row, k) => id(row, promptWidth + k), responseWidth),
        responseWidth,
      ),
      response_mask: long(mask, responseWidth),
      advantages: wave(1.7),
      values: wave(0.5),
      returns: wave(1.1),
    },
  });
}

const apart = (a: Tensor, b: Tensor): number =>
  scope(() => a.sub(b).to('float32').norm().item() / Math.max(1e-6, b.to('float32').norm().item()));

function gradientsOf(update: (options: UpdateOptions, metrics: MetricList) => void, sharePrompts: boolean) {
  const gradients = new Map<string, Tensor>();
  const metrics = new MetricList();
  const keep = (all: ReadonlyMap<string, Tensor>): void => {
    for (const [name, value] of all) gradients.set(name, value.clone().keep());
  };
  const rest = { temperature: 1, recompute: true, dpSize: 1, sumOverRanks: (x: number) => x };
  update({ ...rest, reduceGradients: keep, sharePrompts }, metrics);
  return { gradients, shared: metrics.total(SHARED_TOKENS) };
}

function expectSameUpdate(update: (options: UpdateOptions, metrics: MetricList) => void, isShared: boolean): void {
  const [shared, plain] = [true, false].map((share) => gradientsOf(update, share));
  expect(shared!.shared).toBe(isShared ? 3 * (1 + 80 + 33 + 64 + 17) : 0);
  for (const [name, gradient] of plain!.gradients) {
    expect(apart(shared!.gradients.get(name)!, gradient), name).toBeLessThan(0.05);
    gradient.dispose();
    shared!.gradients.get(name)!.dispose();
  }
}

describe.skipIf(reason !== '')(`shared prompts on CUDA${reason}`, () => {
  const rows = Array.from({ length: 21 }, (_, k) => k);

  it.each(Object.keys(families) as (keyof typeof families)[])('the policy of a %s', (family) => {
    manualSeed(3);
    const model = createCausalLM({ ...shape, ...families[family] }, { device, dtype: 'bfloat16' });
    const optimizer = new AdamW(model.namedParameters(), { lr: 0 });
    scope(() => {
      const batch = makeBatch();
      const [shared, plain] = [true, false].map((sharePrompts) =>
        scoreBatch(model, batch, { microBatches: [rows], temperature: 1, entropy: true, sharePrompts }),
      );
      for (const name of ['logProbs', 'entropy'] as const) {
        expect(apart(shared![name]!, plain![name]!), name).toBeLessThan(5e-3);
        shared![name]!.dispose();
        plain![name]!.dispose();
      }
      const updater = new ActorUpdater(model, optimizer, {
        loss_agg_mode: 'token-mean',
        entropy_coeff: 0.01,
        calculate_entropy: true,
        use_kl_loss: false,
        kl_loss_coef: 0,
        kl_loss_type: 'low_var_kl',
        grad_clip: 1e9,
        clip_ratio: 0.2,
        policy_loss: { loss_mode: 'vanilla' },
      } as never);
      expectSameUpdate((options, metrics) => updater.step(batch, [rows], metrics, options), family !== 'mistral');
    });
    optimizer.dispose();
    model.dispose();
  });

  it('the critic', () => {
    manualSeed(4);
    const model = new ValueModel(readModelConfig({ ...shape, ...families.qwen2 }), { device, dtype: 'bfloat16' });
    const optimizer = new AdamW(model.namedParameters(), { lr: 0 });
    scope(() => {
      const batch = makeBatch();
      const [shared, plain] = [true, false].map((sharePrompts) =>
        computeValues(model, batch, [rows], { sharePrompts }),
      );
      expect(apart(shared!, plain!)).toBeLessThan(0.02);
      shared!.dispose();
      plain!.dispose();
      const updater = new CriticUpdater(model, optimizer, {
        cliprange_value: 0.5,
        loss_agg_mode: 'token-mean',
        grad_clip: 1e9,
      });
      expectSameUpdate((options, metrics) => updater.step(batch, [rows], metrics, options), true);
    });
    optimizer.dispose();
    model.dispose();
  });
});
