/** The engine on a GPU: captured graphs, steps launched ahead of the host, FlashAttention for prompts. */
import { cudaMemory, isCudaAvailable, manualSeed, nn, noGrad, scope } from '@verlet/torch';
import { afterAll, describe, expect, it } from 'vitest';
import { type CausalLM, createCausalLM, PackedAttention } from '../models/index.js';
import { batchBuckets } from './cuda-runner.js';
import { type EngineOptions, RolloutEngine } from './engine.js';
import type { GenerationOutput, GenerationRequest } from './types.js';

const device = 'cuda:0';
const reason = isCudaAvailable() ? '' : ' (skipped: no CUDA device here)';
const vocabulary = 1024;

const shapes = {
  qwen2: { model_type: 'qwen2', head_dim: undefined, hidden_size: 448 },
  qwen3: { model_type: 'qwen3', head_dim: 128, hidden_size: 448 },
  mistral: { model_type: 'mistral', head_dim: undefined, hidden_size: 448, sliding_window: 40 },
};

function makeModel(shape: keyof typeof shapes): CausalLM {
  manualSeed(3);
  const { head_dim, ...rest } = shapes[shape];
  return createCausalLM(
    {
      ...rest,
      ...(head_dim ? { head_dim } : {}),
      num_attention_heads: 7,
      num_key_value_heads: 1,
      num_hidden_layers: 3,
      intermediate_size: 512,
      vocab_size: vocabulary,
      max_position_embeddings: 2048,
      rms_norm_eps: 1e-6,
      tie_word_embeddings: true,
      initializer_range: 0.08,
      hidden_act: 'silu',
    },
    { device, dtype: 'bfloat16' },
  );
}

function request(k: number, length: number, sampling: GenerationRequest['sampling'] = {}): GenerationRequest {
  const promptIds = Array.from({ length }, (_, j) => (k * 131 + j * j * 7 + j) % vocabulary);
  return { promptIds, sampleIndex: k, sampling: { seed: 11, ignoreEos: true, maxTokens: 40, ...sampling } };
}

async function generate(engine: RolloutEngine, requests: readonly GenerationRequest[]): Promise<GenerationOutput[]> {
  return Promise.all(requests.map((one) => engine.submit(one).output));
}

/** Log-probs of an output under one packed pass of the same model, as the trainer computes them. */
function recomputed(model: CausalLM, { promptIds }: GenerationRequest, { tokenIds }: GenerationOutput): number[] {
  return scope(() => {
    const ids = [...Array.from(promptIds), ...tokenIds];
    const context = new PackedAttention([ids.length], device);
    const hidden = noGrad(() => model.model.forward(nn.indexTensor(ids, device), context));
    const predictors = hidden.narrow(0, promptIds.length - 1, tokenIds.length).contiguous();
    const head = new nn.LogProbHead(predictors, model.headWeight, nn.indexTensor(tokenIds, device));
    context.dispose();
    return head.result.logProbs.toArray();
  });
}

const engines: RolloutEngine[] = [];
function makeEngine(model: CausalLM, options: EngineOptions = {}): RolloutEngine {
  const engine = new RolloutEngine(model, { maxNumSeqs: 32, maxModelLength: 1024, endTokenIds: [1], ...options });
  engines.push(engine);
  return engine;
}

describe.skipIf(reason !== '')(`the engine on CUDA${reason}`, () => {
  afterAll(async () => {
    for (const engine of engines) await engine.close();
  });

  it.each(['qwen2', 'qwen3', 'mistral'] as const)('samples what the trainer computes: %s', async (shape) => {
    const model = makeModel(shape);
    const engine = makeEngine(model, { maxNumBatchedTokens: 256 });
    const requests = [5, 33, 64, 200, 600, 17, 1, 100].map((length, k) => request(k, length));
    const outputs = await generate(engine, requests);
    let worst = 0;
    outputs.forEach((output, k) => {
      expect(output.tokenIds).toHaveLength(40);
      const wanted = recomputed(model, requests[k]!, output);
      output.logProbs.forEach((logProb, j) => {
        worst = Math.max(worst, Math.abs(logProb - wanted[j]!));
      });
    });
    console.log(`${shape}: largest log-prob difference between engine and trainer in bfloat16: ${worst.toFixed(4)}`);
    expect(worst).toBeLessThan(0.15);
  });

  it('does not depend on who shares a batch of the same size', async () => {
    const model = makeModel('qwen2');
    // One size of graph, so that matrix products round in one way.
    const engine = makeEngine(model, { maxNumSeqs: 1 });
    const wide = makeEngine(model, { maxNumSeqs: 16, maxNumBatchedTokens: 64 });
    const subject = request(0, 50, { temperature: 1 });
    const others = (from: number): GenerationRequest[] =>
      Array.from({ length: 15 }, (_, k) => request(from + k, 20 + 3 * k, { maxTokens: 60 }));
    const [first] = await generate(wide, [subject, ...others(1)]);
    const [second] = await generate(wide, [subject, ...others(100)]);
    expect(second!.tokenIds).toEqual(first!.tokenIds);
    expect(second!.logProbs).toEqual(first!.logProbs);
    const [alone] = await generate(engine, [subject]);
    expect(alone!.tokenIds).toHaveLength(40);
  });

  it('reads a shared prefix from the cache and gives each sample its own noise', async () => {
    const model = makeModel('qwen2');
    const engine = makeEngine(model);
    const prompt = request(0, 100).promptIds;
    const samples = Array.from({ length: 8 }, (_, k) => ({ ...request(k, 1), promptIds: prompt }));
    const outputs = await generate(engine, samples);
    expect(new Set(outputs.map((output) => output.tokenIds.join())).size).toBe(8);
    outputs.forEach((output, k) => {
      const wanted = recomputed(model, samples[k]!, output);
      output.logProbs.forEach((logProb, j) => {
        expect(Math.abs(logProb - wanted[j]!)).toBeLessThan(0.15);
      });
    });
    const longer = { ...request(20, 1), promptIds: [...Array.from(prompt), ...outputs[0]!.tokenIds] };
    const [next] = await generate(engine, [longer]);
    expect(next!.numCachedTokens).toBeGreaterThanOrEqual(96);
    const wanted = recomputed(model, longer, next!);
    next!.logProbs.forEach((logProb, j) => {
      expect(Math.abs(logProb - wanted[j]!)).toBeLessThan(0.15);
    });
  });

  it('ends at end tokens and lengths although a step is always in flight, and survives a tiny cache', async () => {
    const model = makeModel('qwen2');
    const engine = makeEngine(model, { cacheBytes: 24 * 16 * 2 * 2 * 64 * 3, maxModelLength: 200 });
    const requests = Array.from({ length: 40 }, (_, k) =>
      request(k, 10 + (k % 30), {
        ignoreEos: false,
        maxTokens: 1 + ((k * 7) % 60),
        stopTokenIds: [2, 3, 4, 5, 6, 7, 8],
      }),
    );
    const outputs = await generate(engine, requests);
    expect(engine.stats.numPreempted).toBeGreaterThan(0);
    expect(engine.stats.numFreeBlocks).toBe(engine.stats.numBlocks);
    const ends = new Set([1, 2, 3, 4, 5, 6, 7, 8]);
    outputs.forEach((output, k) => {
      const { tokenIds, finishReason } = output;
      const before = tokenIds.slice(0, -1);
      expect(before.some((id) => ends.has(id))).toBe(false);
      if (finishReason === 'length') expect(tokenIds).toHaveLength(requests[k]!.sampling!.maxTokens!);
      else expect(ends.has(tokenIds.at(-1)!)).toBe(true);
      const wanted = recomputed(model, requests[k]!, output);
      output.logProbs.forEach((logProb, j) => {
        expect(Math.abs(logProb - wanted[j]!)).toBeLessThan(0.15);
      });
    });
  });

  it('takes penalties, alternatives, aborts and truncation', async () => {
    const engine = makeEngine(makeModel('qwen2'));
    const controller = new AbortController();
    const aborted = engine.submit({ ...request(1, 30, { maxTokens: 900 }), signal: controller.signal });
    const [penalized, alternatives, cut] = await generate(engine, [
      request(2, 30, { repetitionPenalty: 1.3, presencePenalty: 0.5, minTokens: 4 }),
      request(3, 30, { topLogProbs: 3, temperature: 0 }),
      request(4, 30, { topK: 1 }),
    ]);
    controller.abort();
    expect((await aborted.output).finishReason).toBe('abort');
    expect(penalized!.tokenIds).toHaveLength(40);
    alternatives!.topLogProbs!.forEach((top, j) => {
      // Not the id: in bfloat16 several logits may share the first place.
      expect(top).toHaveLength(3);
      expect(top[0]!.logProb).toBeCloseTo(alternatives!.logProbs[j]!, 3);
    });
    const [greedy] = await generate(engine, [request(4, 30, { temperature: 0 })]);
    expect(cut!.tokenIds.slice(0, 5)).toEqual(greedy!.tokenIds.slice(0, 5));
  });

  it('keeps its graphs over weight updates and gives memory back while it sleeps', async () => {
    const model = makeModel('qwen2');
    const engine = makeEngine(model);
    const subject = request(0, 40, { temperature: 0 });
    const [before] = await generate(engine, [subject]);
    const running = engine.submit(request(9, 20, { maxTokens: 300 }));
    await new Promise((resolve) => setTimeout(resolve, 30));
    noGrad(() => {
      for (const parameter of model.parameters()) parameter.mul_(0.9);
    });
    await engine.updateWeights();
    const [after] = await generate(engine, [subject]);
    expect(after!.weightVersions.every((version) => version === 1)).toBe(true);
    expect(after!.logProbs).not.toEqual(before!.logProbs);
    const wanted = recomputed(model, subject, after!);
    after!.logProbs.forEach((logProb, j) => {
      expect(Math.abs(logProb - wanted[j]!)).toBeLessThan(0.15);
    });
    expect((await running.output).tokenIds).toHaveLength(300);
    const held = cudaMemory(device).allocated;
    await engine.sleep();
    expect(cudaMemory(device).allocated).toBeLessThan(held);
    const waiting = engine.submit(subject);
    await engine.wake();
    expect((await waiting.output).tokenIds).toEqual(after!.tokenIds);
  });
});

it('has a batch size for every batch', () => {
  for (const most of [1, 3, 17, 256, 1000]) {
    const sizes = batchBuckets(most);
    expect(sizes.at(-1)).toBe(most);
    expect([...sizes].sort((a, b) => a - b)).toEqual(sizes);
  }
});
