/** Two ranks make the update that one makes: same weights after the same rows, whatever the deal. */
import { mkdtempSync, rmSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { full, manualSeed, openSafetensors, randint, randn, scope, type Tensor, tensor } from '@verlet/torch';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { composeConfig, type PpoConfig } from '../../src/config/index.js';
import { createColocatedWorkers, processLauncher } from '../../src/controller/index.js';
import { Ranks } from '../../src/controller/worker-group.js';
import { saveCausalLM } from '../../src/models/checkpoint.js';
import { createCausalLM } from '../../src/models/index.js';
import { CHATML_TEMPLATE, trainBpe } from '../../src/models/tokenizer/index.js';
import { DataProto } from '../../src/protocol/index.js';
import { ActorRolloutRefWorker } from '../../src/workers/actor-rollout-ref.js';
import { CriticWorker } from '../../src/workers/critic-worker.js';

const promptLength = 4;
const responseLength = 8;
let folder: string;
let vocabSize: number;

beforeAll(async () => {
  folder = mkdtempSync(path.join(tmpdir(), 'verlet-data-parallel-'));
  const modelFolder = path.join(folder, 'model');
  await mkdir(modelFolder);
  const corpus = ['what is one and two? it is three.', 'user assistant system'];
  const tokenizer = await trainBpe(corpus, {
    vocabSize: 300,
    folder: modelFolder,
    specialTokens: ['<|endoftext|>', '<|im_start|>', '<|im_end|>'],
    chatTemplate: CHATML_TEMPLATE,
  });
  vocabSize = tokenizer.vocabSize;
  manualSeed(1);
  const model = createCausalLM({
    model_type: 'qwen2',
    hidden_size: 32,
    num_attention_heads: 4,
    num_key_value_heads: 2,
    num_hidden_layers: 2,
    intermediate_size: 64,
    vocab_size: vocabSize,
    max_position_embeddings: 128,
    rms_norm_eps: 1e-6,
    tie_word_embeddings: true,
    initializer_range: 0.2,
    eos_token_id: tokenizer.tokenToId('<|im_end|>')!,
  });
  await saveCausalLM(model, modelFolder);
  model.dispose();
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function configOf(miniBatchSize: number): PpoConfig {
  const model = path.join(folder, 'model');
  return composeConfig({
    kind: 'ppo',
    overrides: [
      `actor_rollout_ref.model.path=${model}`,
      `critic.model.path=${model}`,
      'data.train_files=none.parquet',
      'data.train_batch_size=4',
      `data.max_prompt_length=${promptLength}`,
      `data.max_response_length=${responseLength}`,
      'actor_rollout_ref.rollout.n=2',
      `actor_rollout_ref.actor.ppo_mini_batch_size=${miniBatchSize}`,
      'actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1',
      'actor_rollout_ref.actor.entropy_coeff=0.01',
      'actor_rollout_ref.actor.optim.lr=1e-3',
      `critic.ppo_mini_batch_size=${miniBatchSize}`,
      'critic.ppo_micro_batch_size_per_gpu=1',
      'critic.optim.lr=1e-3',
      'trainer.device=cpu',
    ],
  }).config;
}

/** Rows with prompts and responses of several lengths, as they come to the update. */
function updateBatch(rows: number): DataProto {
  manualSeed(7);
  return scope(() => {
    const width = promptLength + responseLength;
    const mask = Array.from({ length: rows }, (_, row) =>
      Array.from({ length: width }, (_, k) => (k >= row % 3 && k < width - ((row * 2) % 5) ? 1 : 0)),
    );
    const attention = tensor(mask, { dtype: 'int64' });
    const ids = randint(4, vocabSize, [rows, width]);
    const responseMask = attention.narrow(1, promptLength, responseLength).contiguous();
    const numbers = (): Tensor => randn([rows, responseLength]);
    return DataProto.fromDict({
      tensors: {
        input_ids: ids,
        attention_mask: attention,
        position_ids: attention.cumsum(1).sub(1).clamp(0),
        prompts: ids.narrow(1, 0, promptLength).contiguous(),
        responses: ids.narrow(1, promptLength, responseLength).contiguous(),
        response_mask: responseMask,
        old_log_probs: numbers().mul(0.1).sub(5),
        ref_log_prob: numbers().mul(0.1).sub(5),
        advantages: numbers(),
        returns: numbers(),
        values: numbers().mul(0.1),
      },
    });
  });
}

interface Outcome {
  weights: Map<string, Float32Array>;
  logProbs: Float32Array;
  values: Float32Array;
  metrics: Record<string, number[]>;
}

async function update(worldSize: number, rows: number, miniBatchSize: number): Promise<Outcome> {
  const config = configOf(miniBatchSize);
  const { actor, critic } = await createColocatedWorkers(
    { actor: { workerClass: ActorRolloutRefWorker, config }, critic: { workerClass: CriticWorker, config } },
    { launcher: worldSize === 1 ? 'inline' : processLauncher(), worldSize, timeoutSeconds: 100 },
  );
  const saved = path.join(folder, `saved-${worldSize}-${rows}`);
  try {
    await actor.initModel({ totalSteps: 10, useReference: false });
    await critic.initModel({ totalSteps: 10 });
    const batch = updateBatch(rows);
    const scored = (await actor.computeLogProb(batch)).tensor('old_log_probs').toFloat32Array();
    const valued = (await critic.computeValues(batch)).tensor('values').toFloat32Array();
    const critics = await critic.updateCritic(batch);
    const actors = await actor.updateActor(batch);
    const weights = new Map<string, Float32Array>();
    for (const [name, group] of Object.entries({ actor, critic })) {
      await mkdir(path.join(saved, name), { recursive: true });
      await group.saveCheckpoint(path.join(saved, name));
    }
    for (const file of ['actor/huggingface', 'critic/model.safetensors']) {
      using reader = openSafetensors(path.join(saved, file));
      for (const name of reader.names())
        weights.set(
          `${file}:${name}`,
          scope(() => reader.tensor(name).toFloat32Array()),
        );
    }
    const metrics = { ...critics.metaInfo.metrics!, ...actors.metaInfo.metrics! } as Record<string, number[]>;
    return { weights, logProbs: scored, values: valued, metrics };
  } finally {
    await actor.close();
  }
}

const largestDifference = (a: Float32Array, b: Float32Array): number =>
  a.reduce((largest, value, k) => Math.max(largest, Math.abs(value - b[k]!)), 0);

describe('two ranks and one', () => {
  it.each([
    ['two mini-batches', 8, 2],
    ['rows that do not divide', 5, 4],
  ])('make the same update: %s', async (_, rows, miniBatchSize) => {
    const one = await update(1, rows, miniBatchSize);
    const two = await update(2, rows, miniBatchSize);
    expect(largestDifference(one.logProbs, two.logProbs)).toBeLessThan(1e-5);
    expect(largestDifference(one.values, two.values)).toBeLessThan(1e-5);
    expect([...two.weights.keys()].sort()).toEqual([...one.weights.keys()].sort());
    let moved = 0;
    const before = new Map<string, Float32Array>();
    using reader = openSafetensors(path.join(folder, 'model'));
    for (const name of reader.names())
      before.set(
        name,
        scope(() => reader.tensor(name).toFloat32Array()),
      );
    for (const [name, weights] of one.weights) {
      // Adam's first steps are of size lr whatever the gradient: differences of rounding stay far below one step of 1e-3.
      expect(largestDifference(weights, two.weights.get(name)!), name).toBeLessThan(2e-5);
      const initial = before.get(name.split(':')[1]!);
      if (initial) moved = Math.max(moved, largestDifference(weights, initial));
    }
    expect(moved).toBeGreaterThan(5e-4);
    // The norm is of the whole mini-batch's gradient: every rank sees the same as one rank alone.
    for (const name of ['actor/grad_norm', 'critic/grad_norm']) {
      const [alone, both] = [one.metrics[name]!, two.metrics[name]!];
      expect(both).toHaveLength(2 * alone.length);
      for (const [k, norm] of [...alone, ...alone].entries()) expect(both[k]! / norm).toBeCloseTo(1, 4);
    }
  });
});

it('a rank whose loss is not finite tells the others, who would wait for its gradients', async () => {
  const config = configOf(4);
  const roles = [{ role: 'actor', workerClass: ActorRolloutRefWorker as never, config }];
  const limit = 600_000;
  const set = await processLauncher().launch(roles, { worldSize: 2, device: 'cpu', timeoutMs: limit });
  const ranks = new Ranks(set);
  try {
    await ranks.call(
      'actor',
      'initModel',
      [0, 1].map(() => [{ totalSteps: 10, useReference: false }]),
      limit,
    );
    const parts = [updateBatch(4), updateBatch(4)];
    parts[1]!.set('advantages', full([4, responseLength], Number.NaN));
    const outcomes = await Promise.allSettled(
      parts.map((part, rank) => set.call(rank, 'actor', 'updateActor', [part], limit)),
    );
    expect(outcomes.map((outcome) => (outcome as PromiseRejectedResult).reason.workerErrorName)).toEqual([
      'PeerFailedError',
      'NonFiniteError',
    ]);
    // Both are heard at nearly the same time; the group names the one with the cause.
    const failure = ranks.call(
      'actor',
      'updateActor',
      parts.map((part) => [part]),
      limit,
    );
    await expect(failure).rejects.toMatchObject({ rank: 1, workerErrorName: 'NonFiniteError' });
  } finally {
    await ranks.close();
  }
});
