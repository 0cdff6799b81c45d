import { AdamW, manualSeed, tensor } from '@verlet/torch';
import { expect, it } from 'vitest';
import { createCausalLM } from '../models/index.js';
import { DataProto } from '../protocol/index.js';
import { ActorUpdater } from './actor.js';
import { miniBatchRows, rowsPerPass, shuffleSeed } from './language-model-worker.js';
import { MetricList } from './metric-list.js';

it('shuffles rows into mini-batches anew in every pass, the same way in every run', () => {
  const batch = DataProto.fromDict({ nonTensors: { uid: Array.from({ length: 16 }, (_, k) => k) } });
  const settings = { shuffle: true, data_loader_seed: 42, ppo_epochs: 2 };
  const cut = (updates: number, epoch: number) => miniBatchRows(batch, 2, 4, shuffleSeed(settings, updates, epoch));
  expect(cut(0, 0).map((rows) => rows.length)).toEqual([8, 8]);
  expect(
    cut(0, 0)
      .flat()
      .sort((a, b) => a - b),
  ).toEqual(Array.from({ length: 16 }, (_, k) => k));
  expect(cut(0, 0)).toEqual(cut(0, 0));
  expect(new Set([cut(0, 0), cut(0, 1), cut(1, 0)].map((rows) => rows.join())).size).toBe(3);
  expect(shuffleSeed({ ...settings, shuffle: false }, 0, 0)).toBeUndefined();
});

it('reads the micro-batch size that counts over all ranks', () => {
  expect(rowsPerPass(null, 8, 4)).toBe(2);
  expect(rowsPerPass(3, 8, 4)).toBe(3);
  expect(rowsPerPass(null, null, 4)).toBeNull();
});

it('a rank whose rows have no token to learn from still gives its peers a gradient of every parameter', () => {
  manualSeed(1);
  const model = createCausalLM({
    model_type: 'qwen2',
    hidden_size: 16,
    num_attention_heads: 2,
    num_key_value_heads: 1,
    num_hidden_layers: 1,
    intermediate_size: 16,
    vocab_size: 8,
    max_position_embeddings: 32,
    rms_norm_eps: 1e-6,
    tie_word_embeddings: false,
  });
  const long = (values: number[][]) =>
    tensor(Int32Array.from(values.flat()), { shape: [2, values[0]!.length], dtype: 'int64' });
  const wide = () => tensor(new Float32Array(4), { shape: [2, 2] });
  const batch = DataProto.fromDict({
    tensors: {
      input_ids: long([
        [1, 2, 3, 4],
        [0, 0, 0, 0],
      ]),
      responses: long([
        [3, 4],
        [0, 0],
      ]),
      // The second row has no token at all: its agent failed before the first prompt.
      attention_mask: long([
        [1, 1, 1, 1],
        [0, 0, 0, 0],
      ]),
      response_mask: long([
        [0, 0],
        [0, 0],
      ]),
      advantages: wide(),
      rollout_log_probs: wide(),
    },
  });
  const optimizer = new AdamW(model.namedParameters(), { lr: 0.1 });
  const config = { loss_agg_mode: 'token-mean', entropy_coeff: 0.1, use_kl_loss: false, grad_clip: 1, clip_ratio: 0.2 };
  const updater = new ActorUpdater(model, optimizer, { ...config, policy_loss: { loss_mode: 'vanilla' } } as never);
  let shared: string[] = [];
  updater.step(batch, [[0], [1]], new MetricList(), {
    temperature: 1,
    recompute: false,
    dpSize: 2,
    sumOverRanks: (value) => value,
    reduceGradients: (gradients) => {
      shared = [...gradients.keys()];
    },
  });
  expect(shared).toEqual([...model.namedParameters()].map(([name]) => name));
  batch.dispose();
  optimizer.dispose();
  model.dispose();
});
