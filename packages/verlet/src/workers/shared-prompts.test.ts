/** Sharing prompts changes how much is computed, and nothing else: scores, values, losses and gradients stay as they were. */
import { AdamW, manualSeed, nn, noGrad, scope, type Tensor, tensor } from '@verlet/torch';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type CausalLM, createCausalLM, PackedAttention, readModelConfig, ValueModel } from '../models/index.js';
import { DataProto } from '../protocol/index.js';
import { ActorUpdater } from './actor.js';
import { CriticUpdater, computeValues } from './critic.js';
import { scoreBatch } from './language-model-worker.js';
import { MetricList } from './metric-list.js';
import type { UpdateOptions } from './optimizer-step.js';
import { packRows, rowSource } from './packing.js';

const vocabulary = 19;
const promptWidth = 8;
const responseWidth = 9;

interface Row {
  prompt: number[];
  response: number[];
  /** 1 where the model spoke. */
  mask: number[];
}

const token = fc.nat(vocabulary - 1);
const prompt = fc.array(token, { minLength: 1, maxLength: promptWidth });
const answer = fc
  .array(fc.tuple(token, fc.constantFrom(1, 1, 1, 0)), { maxLength: responseWidth })
  .map((tokens) => ({ response: tokens.map(([id]) => id), mask: tokens.map(([, own]) => own) }));
const group = fc
  .tuple(
    fc.oneof({ weight: 9, arbitrary: prompt }, { weight: 1, arbitrary: fc.constant<number[]>([]) }),
    fc.array(answer, { minLength: 1, maxLength: 5 }),
  )
  .map(([ids, answers]) => answers.map((own): Row => ({ prompt: ids, ...own })));
/** Groups in any order, their rows mixed. */
const batches = fc
  .array(group, { minLength: 1, maxLength: 4 })
  .chain((groups) => fc.shuffledSubarray(groups.flat(), { minLength: groups.flat().length }));

function batchOf(rows: readonly Row[]): DataProto {
  const wave = (step: number) =>
    tensor(Float32Array.from({ length: rows.length * responseWidth }, (_, k) => Math.sin(k * step))).reshape(
      rows.length,
      responseWidth,
    );
  const long = (of: (row: Row) => number[], width: number) =>
    tensor(Int32Array.from(rows.flatMap(of)), { dtype: 'int64' }).reshape(rows.length, width);
  const left = (ids: number[]) => [...new Array<number>(promptWidth - ids.length).fill(0), ...ids];
  const right = (ids: number[]) => [...ids, ...new Array<number>(responseWidth - ids.length).fill(0)];
  const ones = (ids: number[]) => ids.map(() => 1);
  return DataProto.fromDict({
    tensors: {
      input_ids: long((row) => [...left(row.prompt), ...right(row.response)], promptWidth + responseWidth),
      attention_mask: long(
        (row) => [...left(ones(row.prompt)), ...right(ones(row.response))],
        promptWidth + responseWidth,
      ),
      responses: long((row) => right(row.response), responseWidth),
      response_mask: long((row) => right(row.mask), responseWidth),
      old_log_probs: wave(0.3).sub(2),
      ref_log_prob: wave(0.9).sub(2),
      advantages: wave(1.7),
      values: wave(0.5),
      returns: wave(1.1),
    },
  });
}

const shape = {
  vocab_size: vocabulary,
  hidden_size: 16,
  intermediate_size: 24,
  num_hidden_layers: 2,
  num_attention_heads: 4,
  num_key_value_heads: 2,
  initializer_range: 0.25,
  max_position_embeddings: 64,
};
const families = [
  { model_type: 'qwen2' },
  { model_type: 'qwen3', head_dim: 8, tie_word_embeddings: true },
  { model_type: 'mistral', sliding_window: 5 },
];

function furthest(a: Tensor, b: Tensor): number {
  return scope(() => {
    const scale = Math.max(1, a.abs().max().item());
    return a.sub(b).abs().max().item() / scale;
  });
}

/** What one update adds up, by parameter. */
function gradientsOf(update: (options: UpdateOptions, metrics: MetricList) => void, sharePrompts: boolean) {
  const gradients = new Map<string, Tensor>();
  const metrics = new MetricList();
  const keep = (all: ReadonlyMap<string, Tensor>): void => {
    for (const [name, value] of all) gradients.set(name, value.clone().keep());
  };
  update(
    { temperature: 0.8, recompute: false, dpSize: 1, sumOverRanks: (x) => x, reduceGradients: keep, sharePrompts },
    metrics,
  );
  return { gradients, metrics: metrics.reduced() };
}

function expectSameUpdate(update: (options: UpdateOptions, metrics: MetricList) => void): void {
  const [shared, plain] = [true, false].map((isShared) => gradientsOf(update, isShared));
  expect([...shared!.gradients.keys()]).toEqual([...plain!.gradients.keys()]);
  for (const [name, gradient] of plain!.gradients) {
    expect(furthest(gradient, shared!.gradients.get(name)!), name).toBeLessThan(1e-5);
    gradient.dispose();
    shared!.gradients.get(name)!.dispose();
  }
  for (const [name, value] of Object.entries(plain!.metrics))
    if (name !== 'perf/shared_prompt_tokens') expect(shared!.metrics[name], name).toBeCloseTo(value, 4);
}

/** Log-probs of the sampled tokens, each row by itself and to its very end. */
function logProbsOfWholeRows(model: CausalLM, rows: readonly Row[], temperature: number): Tensor {
  const values = rows.flatMap(({ prompt: given, response, mask }) => {
    const ids = [...given, ...response];
    const own = new Array<number>(responseWidth).fill(0);
    if (ids.length === 0) return own;
    const context = new PackedAttention([ids.length], 'cpu');
    const hidden = noGrad(() => model.model.forward(nn.indexTensor(ids), context));
    context.dispose();
    const logs = noGrad(() => model.logits(hidden).div(temperature).logSoftmax(-1)).toNested() as number[][];
    // A row without a prompt has nothing that predicts its first token.
    for (const [k, id] of response.entries())
      if (mask[k] === 1 && given.length + k > 0) own[k] = logs[given.length + k - 1]![id]!;
    return own;
  });
  return tensor(Float32Array.from(values), { shape: [rows.length, responseWidth] });
}

/** Cut anywhere, as micro-batches may be. */
function halves(rows: number, cut: number): number[][] {
  const all = Array.from({ length: rows }, (_, k) => k);
  const at = cut % rows;
  return at === 0 ? [all] : [all.slice(0, at), all.slice(at)];
}

describe.each(families)('shared prompts: $model_type', (family) => {
  it('leave log-probs, entropies and the gradient of the policy as they are', () => {
    manualSeed(7);
    const model = createCausalLM({ ...shape, ...family });
    const optimizer = new AdamW(model.namedParameters(), { lr: 0 });
    const updater = new ActorUpdater(model, optimizer, {
      loss_agg_mode: 'token-mean',
      entropy_coeff: 0.1,
      calculate_entropy: true,
      use_kl_loss: true,
      kl_loss_coef: 0.1,
      kl_loss_type: 'low_var_kl',
      grad_clip: 1e9,
      clip_ratio: 0.2,
      policy_loss: { loss_mode: 'vanilla' },
    } as never);
    fc.assert(
      fc.property(batches, fc.nat(20), (rows, cut) =>
        scope(() => {
          const batch = batchOf(rows);
          const microBatches = halves(rows.length, cut);
          const [shared, plain] = [true, false].map((sharePrompts) =>
            scoreBatch(model, batch, {
              microBatches,
              temperature: 0.8,
              entropy: true,
              sumPiSquared: true,
              sharePrompts,
            }),
          );
          expect(furthest(logProbsOfWholeRows(model, rows, 0.8), plain!.logProbs)).toBeLessThan(1e-5);
          for (const name of ['logProbs', 'entropy', 'sumPiSquared'] as const) {
            expect(furthest(shared![name]!, plain![name]!), name).toBeLessThan(1e-5);
            shared![name]!.dispose();
            plain![name]!.dispose();
          }
          expectSameUpdate((options, metrics) => updater.step(batch, microBatches, metrics, options));
        }),
      ),
      { numRuns: 25 },
    );
    optimizer.dispose();
    model.dispose();
  });

  it('leave values and the gradient of the critic as they are', () => {
    manualSeed(8);
    const model = new ValueModel(readModelConfig({ ...shape, ...family }));
    const optimizer = new AdamW(model.namedParameters(), { lr: 0 });
    const settings = { cliprange_value: 0.5, loss_agg_mode: 'token-mean' as const, grad_clip: 1e9 };
    const updater = new CriticUpdater(model, optimizer, settings);
    fc.assert(
      fc.property(batches, fc.nat(20), (rows, cut) =>
        scope(() => {
          const batch = batchOf(rows);
          const microBatches = halves(rows.length, cut);
          const [shared, plain] = [true, false].map((sharePrompts) =>
            computeValues(model, batch, microBatches, { sharePrompts }),
          );
          expect(furthest(shared!, plain!)).toBeLessThan(1e-5);
          shared!.dispose();
          plain!.dispose();
          expectSameUpdate((options, metrics) => updater.step(batch, microBatches, metrics, options));
        }),
      ),
      { numRuns: 25 },
    );
    optimizer.dispose();
    model.dispose();
  });
});

describe('packing with shared prompts', () => {
  const row = (ids: number[], response: number[]): Row => ({ prompt: ids, response, mask: response.map(() => 1) });
  const options = { device: 'cpu', sharePrompts: true, longestShared: Number.POSITIVE_INFINITY };

  it('lays prompts first, then responses, then the rows that share nothing, each up to what is predicted last', () => {
    scope(() => {
      const source = rowSource(
        batchOf([row([1, 2], [3]), row([5], [6, 7]), row([1, 2], [4, 4]), row([1, 2], []), row([2], [])]),
      );
      const packed = packRows(source, [0, 1, 2, 3, 4], options);
      expect(packed.inputIds.toArray()).toEqual([1, 2, 3, 4, 5, 6, 2]);
      expect(packed.lengths).toEqual([2, 1, 1, 2, 1]);
      expect(packed.prefixes).toEqual([-1, 0, 0, -1, -1]);
      expect(packed.predictors.toArray()).toEqual([1, 1, 3, 4, 5]);
      expect(packed.targets.toArray()).toEqual([3, 4, 4, 6, 7]);
      expect(packed.places.toArray()).toEqual([0, 18, 19, 9, 10]);
      expect(packed.sharedTokens).toBe(4);
      packed.dispose();
    });
  });

  it('shares nothing where a row is longer than attention can share, where it is off, and where prompts only look alike', () => {
    scope(() => {
      const source = rowSource(batchOf([row([1, 2], [3]), row([1, 2], [4, 4]), row([0, 1, 2], [3])]));
      for (const other of [{ longestShared: 3 }, { sharePrompts: false }]) {
        const packed = packRows(source, [0, 1, 2], { ...options, ...other });
        expect([packed.lengths, packed.prefixes, packed.sharedTokens]).toEqual([[2, 3, 3], [], 0]);
        packed.dispose();
      }
      // Token 0 in front is a token here and padding there.
      expect([...source.promptOf]).toEqual([0, 0, 2]);
    });
  });
});
