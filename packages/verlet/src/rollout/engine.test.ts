/** The engine on the CPU: what it samples does not depend on how it was scheduled, and is what the trainer computes. */
import { liveTensors, manualSeed, nn, noGrad, scope } from '@verlet/torch';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { AheadRunner } from '../../test/rollout/ahead-runner.js';
import { type CausalLM, createCausalLM, PackedAttention } from '../models/index.js';
import type { Tokenizer } from '../models/tokenizer/index.js';
import { type EngineOptions, RolloutEngine } from './engine.js';
import { EagerRunner } from './model-runner.js';
import type { GenerationOutput, GenerationRequest, SamplingParams } from './types.js';

const vocabulary = 61;
const end = 0;

function makeModel(extra: Record<string, unknown> = {}): CausalLM {
  manualSeed(7);
  return createCausalLM({
    model_type: 'qwen2',
    hidden_size: 32,
    num_attention_heads: 4,
    num_key_value_heads: 2,
    num_hidden_layers: 2,
    intermediate_size: 48,
    vocab_size: vocabulary,
    max_position_embeddings: 256,
    rms_norm_eps: 1e-6,
    tie_word_embeddings: true,
    // Large enough that distributions are far from even.
    initializer_range: 0.35,
    eos_token_id: end,
    ...extra,
  });
}

/** One letter per token: enough for stop strings. */
const letters = {
  detokenizer: () => ({ push: (id: number) => String.fromCharCode(97 + (id % 26)), finish: () => '' }),
} as unknown as Tokenizer;

const model = makeModel();
const engines: RolloutEngine[] = [];
let ahead: AheadRunner | null = null;

function makeEngine(options: EngineOptions & { ahead?: boolean } = {}, own: CausalLM = model): RolloutEngine {
  const { ahead: isAhead, ...rest } = options;
  const complete = { maxNumSeqs: 16, blockSize: 4, tokenizer: letters, seed: 5, ...rest };
  const engine = isAhead
    ? new RolloutEngine(own, complete, (numBlocks, blockSize, ends) => {
        ahead = new AheadRunner(own, numBlocks, blockSize, ends);
        return ahead;
      })
    : new RolloutEngine(own, complete);
  engines.push(engine);
  return engine;
}

afterEach(async () => {
  for (const engine of engines.splice(0)) await engine.close();
});

const blockBytes = 2 * 2 * 4 * 2 * 8 * 4;
const output = (engine: RolloutEngine, request: GenerationRequest): Promise<GenerationOutput> =>
  engine.submit(request).output;

function random(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

/** Logits of the last token of every prefix, by a pass without any cache. */
function plainLogProbs(ids: readonly number[], from: number, own = model, temperature = 1): number[][] {
  return noGrad(() =>
    scope(() => {
      const context = new PackedAttention([ids.length], 'cpu');
      const hidden = own.model.forward(nn.indexTensor(ids), context);
      context.dispose();
      const logs = own
        .logits(hidden.narrow(0, from, ids.length - from))
        .div(temperature)
        .logSoftmax(-1);
      return logs.toNested() as number[][];
    }),
  );
}

describe('what is sampled', () => {
  it('greedily is the most likely token of a pass without a cache', async () => {
    const engine = makeEngine();
    for (const [k, length] of [1, 3, 4, 5, 30].entries()) {
      const promptIds = Array.from({ length }, (_, j) => (7 * j + k) % vocabulary);
      const { tokenIds } = await output(engine, {
        promptIds,
        sampling: { temperature: 0, maxTokens: 12, ignoreEos: true },
      });
      const ids = [...promptIds];
      for (const token of tokenIds) {
        const logs = plainLogProbs(ids, ids.length - 1)[0]!;
        expect(token).toBe(logs.indexOf(Math.max(...logs)));
        ids.push(token);
      }
    }
  });

  it.each([1, 0.6])('has the log-probs of the trainer at temperature %d', async (temperature) => {
    const engine = makeEngine({ maxNumBatchedTokens: 16 });
    const requests = Array.from({ length: 12 }, (_, k) => ({
      promptIds: Array.from({ length: 1 + 5 * k }, (_, j) => (3 * j * k + j) % vocabulary),
      sampleIndex: k,
      sampling: { temperature, maxTokens: 20, ignoreEos: true },
    }));
    const outputs = await Promise.all(requests.map((request) => output(engine, request)));
    let worst = 0;
    outputs.forEach(({ tokenIds, logProbs }, k) => {
      const { promptIds } = requests[k]!;
      const logs = plainLogProbs([...promptIds, ...tokenIds], promptIds.length - 1, model, temperature);
      tokenIds.forEach((token, j) => {
        worst = Math.max(worst, Math.abs(logProbs[j]! - logs[j]![token]!));
      });
    });
    expect(worst).toBeLessThan(1e-4);
  });

  it('follows the distribution: counts of first tokens', async () => {
    const engine = makeEngine({ maxNumSeqs: 512 });
    const promptIds = [3, 1, 4, 1, 5];
    const draws = 3000;
    const counts = new Float64Array(vocabulary);
    const outputs = await Promise.all(
      Array.from({ length: draws }, (_, sampleIndex) =>
        output(engine, { promptIds, sampleIndex, sampling: { maxTokens: 1, temperature: 2 } }),
      ),
    );
    for (const { tokenIds } of outputs) counts[tokenIds[0]!]!++;
    const expected = plainLogProbs(promptIds, promptIds.length - 1, model, 2)[0]!.map((log) => Math.exp(log));
    let chiSquare = 0;
    let cells = 0;
    expected.forEach((p, k) => {
      if (p * draws < 5) return;
      cells++;
      chiSquare += (counts[k]! - p * draws) ** 2 / (p * draws);
    });
    // Mean `cells`, deviation sqrt(2 cells); noise is keyed, so this is the same number in every run.
    expect(chiSquare).toBeLessThan(cells + 5 * Math.sqrt(2 * cells));
  });

  it('respects penalties, bans, minimum lengths and alternatives', async () => {
    const engine = makeEngine();
    const promptIds = [9, 8, 7];
    const greedy = { temperature: 0, maxTokens: 24, ignoreEos: true };
    const plain = await output(engine, { promptIds, sampling: greedy });
    const varied = await output(engine, {
      promptIds,
      sampling: { ...greedy, frequencyPenalty: 2, presencePenalty: 2 },
    });
    expect(new Set(varied.tokenIds).size).toBeGreaterThan(new Set(plain.tokenIds).size);
    const repeated = await output(engine, { promptIds, sampling: { ...greedy, repetitionPenalty: 10 } });
    expect(new Set([...promptIds, ...repeated.tokenIds]).size).toBe(27);
    // Reported are the probabilities of the plain model.
    const logs = plainLogProbs([...promptIds, ...varied.tokenIds], 2);
    varied.tokenIds.forEach((token, k) => {
      expect(varied.logProbs[k]).toBeCloseTo(logs[k]![token]!, 4);
    });
    const stopTokenIds = Array.from({ length: vocabulary - 4 }, (_, k) => k);
    const long = await output(engine, { promptIds, sampling: { minTokens: 6, stopTokenIds, maxTokens: 30 } });
    expect(long.tokenIds.length).toBeGreaterThanOrEqual(6);
    expect(long.tokenIds.slice(0, 5).every((token) => token >= vocabulary - 4)).toBe(true);
    const top = await output(engine, { promptIds, sampling: { ...greedy, topLogProbs: 4 } });
    top.topLogProbs!.forEach((best, k) => {
      expect(best.map((one) => one.logProb)).toEqual([...best.map((one) => one.logProb)].sort((a, b) => b - a));
      expect(best[0]!.tokenId).toBe(top.tokenIds[k]);
      expect(best[0]!.logProb).toBeCloseTo(top.logProbs[k]!, 4);
    });
  });
});

function randomRequest(next: () => number, k: number, seldomHost: boolean): GenerationRequest {
  const integer = (below: number): number => Math.floor(next() * below);
  const shared = integer(3) > 0;
  const group = integer(12);
  const promptIds = shared
    ? Array.from({ length: 4 + ((group * 5) % 30) }, (_, j) => (group * 17 + j * j) % vocabulary)
    : Array.from({ length: 1 + integer(40) }, () => integer(vocabulary));
  if (shared && integer(2) === 0) promptIds.push(...Array.from({ length: integer(6) }, () => integer(vocabulary)));
  const sampling: SamplingParams = { maxTokens: 1 + integer(24), temperature: [0, 1, 0.7, 1.5][integer(4)]! };
  let kind = integer(10);
  // What the host must work out keeps a whole batch from running ahead.
  if (seldomHost && [3, 6, 7].includes(kind) && integer(20) > 0) kind = 9;
  if (kind === 0) Object.assign(sampling, { topK: 1 + integer(8) });
  if (kind === 1) Object.assign(sampling, { topP: 0.5 + next() / 2 });
  if (kind === 2) Object.assign(sampling, { minP: next() / 4 });
  if (kind === 3) Object.assign(sampling, { repetitionPenalty: 1.3, presencePenalty: 0.3 });
  if (kind === 4) Object.assign(sampling, { stop: [String.fromCharCode(97 + integer(26)), 'ab'] });
  if (kind === 5) Object.assign(sampling, { stopTokenIds: [integer(vocabulary), integer(vocabulary)] });
  if (kind === 6) Object.assign(sampling, { ignoreEos: true, topLogProbs: 2 });
  if (kind === 7) Object.assign(sampling, { minTokens: Math.min(4, sampling.maxTokens!) });
  if (kind === 8) Object.assign(sampling, { seed: integer(1000) });
  return { id: `r${k}`, promptIds, sampleIndex: integer(4), sampling };
}

describe.each([
  ['step by step', false, 1],
  ['one step ahead of the host', true, 1],
  ['several tokens at a time', false, 5],
])('a thousand requests, %s', (_, isAhead, tokensPerStep) => {
  it('each gets what it gets alone, through preemption, chunks, shared prefixes and aborts', async () => {
    const next = random(isAhead ? 11 : 12);
    const count = 500;
    const many = vi.spyOn(EagerRunner.prototype, 'decodeMany');
    const requests = Array.from({ length: count }, (_, k) => randomRequest(next, k, isAhead || tokensPerStep > 1));
    const before = liveTensors().count;
    const engine = makeEngine({
      ahead: isAhead,
      tokensPerStep,
      cacheBytes: 34 * blockBytes,
      maxNumBatchedTokens: 24,
      maxModelLength: 64,
    });
    const outputs: Promise<GenerationOutput>[] = [];
    const aborted = new Set<number>();
    for (const [k, request] of requests.entries()) {
      outputs.push(output(engine, request));
      if (next() < 0.05) {
        const victim = Math.max(0, k - Math.floor(next() * 20));
        setTimeout(() => {
          engine.abort(`r${victim}`);
        }, next() * 3);
        aborted.add(victim);
      }
      if (next() < 0.1) await new Promise((resolve) => setImmediate(resolve));
    }
    const results = await Promise.all(outputs);
    const { stats } = engine;
    expect(stats.numPreempted).toBeGreaterThan(0);
    expect(stats.numCachedTokens).toBeGreaterThan(0);
    expect(stats.numFreeBlocks).toBe(stats.numBlocks);
    expect(stats).toMatchObject({ numWaiting: 0, numRunning: 0 });
    if (isAhead) expect(ahead!.numAhead).toBeGreaterThan(100);
    if (tokensPerStep > 1) expect(many.mock.calls.length).toBeGreaterThan(20);
    many.mockRestore();
    const alone = makeEngine({ maxNumSeqs: 1, enablePrefixCaching: false, maxModelLength: 64 });
    let cut = 0;
    for (const [k, request] of requests.entries()) {
      const wanted = await output(alone, request);
      const got = results[k]!;
      if (got.finishReason === 'abort') {
        expect(aborted.has(k)).toBe(true);
        expect(got.tokenIds).toEqual(wanted.tokenIds.slice(0, got.tokenIds.length));
        cut++;
        continue;
      }
      expect(got, `request ${k}: ${JSON.stringify(request)}`).toMatchObject({
        tokenIds: wanted.tokenIds,
        finishReason: wanted.finishReason,
        stopReason: wanted.stopReason,
      });
      got.logProbs.forEach((logProb, j) => {
        expect(Math.abs(logProb - wanted.logProbs[j]!)).toBeLessThan(1e-4);
      });
    }
    expect(cut).toBeLessThan(aborted.size + 1);
    await engine.close();
    await alone.close();
    expect(liveTensors().count).toBe(before);
  });
});

describe.each([false, true])('phases of a trainer (ahead: %s)', (isAhead) => {
  it('starts over with new weights in the middle of a generation', async () => {
    const own = makeModel();
    const engine = makeEngine({ ahead: isAhead }, own);
    const promptIds = [5, 6, 7, 8, 9];
    const generation = engine.submit({ promptIds, sampling: { temperature: 0, maxTokens: 40, ignoreEos: true } });
    let seen = 0;
    for await (const _ of generation) if (++seen === 10) break;
    noGrad(() => {
      for (const parameter of own.parameters()) parameter.mul_(0.8);
    });
    await engine.updateWeights();
    const { tokenIds, weightVersions } = await generation.output;
    expect(weightVersions[0]).toBe(0);
    expect(weightVersions.at(-1)).toBe(1);
    const changed = weightVersions.indexOf(1);
    const logs = plainLogProbs([...promptIds, ...tokenIds], promptIds.length - 1, own);
    tokenIds.slice(changed).forEach((token, j) => {
      const row = logs[changed + j]!;
      expect(token).toBe(row.indexOf(Math.max(...row)));
    });
    await engine.updateWeights();
    const again = await output(engine, { promptIds, sampling: { temperature: 0, maxTokens: 1 } });
    // Nothing computed with other weights is found again.
    expect(again.numCachedTokens).toBe(0);
  });

  it('gives its cache back while it sleeps and goes on where it was', async () => {
    const engine = makeEngine({ ahead: isAhead, cacheBytes: 4000 * blockBytes });
    const request = { promptIds: [1, 2, 3], sampling: { temperature: 0, maxTokens: 40, ignoreEos: true } };
    const wanted = await output(engine, request);
    const generation = engine.submit(request);
    let seen = 0;
    for await (const _ of generation) if (++seen === 5) break;
    const held = liveTensors().bytes;
    await engine.sleep();
    expect(held - liveTensors().bytes).toBeGreaterThan(1000 * blockBytes);
    const early = engine.submit({ ...request, id: 'early' });
    const undecided = Symbol('undecided');
    const settled = await Promise.race([
      early.output,
      new Promise((resolve) => setTimeout(() => resolve(undecided), 30)),
    ]);
    expect(settled).toBe(undecided);
    await engine.wake();
    expect((await generation.output).tokenIds).toEqual(wanted.tokenIds);
    expect((await early.output).tokenIds).toEqual(wanted.tokenIds);
  });
});

describe('refusals', () => {
  it('says what is wrong with a request, and goes on', async () => {
    const engine = makeEngine({ maxModelLength: 32 });
    expect(() => engine.submit({ promptIds: [] })).toThrow(/no tokens/);
    expect(() => engine.submit({ promptIds: [1, vocabulary] })).toThrow(/token 1 is 61.*vocabulary has 61/);
    expect(() => engine.submit({ promptIds: new Array(32).fill(1) })).toThrow(/32 tokens.*at most 32/);
    expect(() => engine.submit({ promptIds: [1], sampling: { topP: 0 } })).toThrow(/topP/);
    const first = engine.submit({ id: 'x', promptIds: [1], sampling: { maxTokens: 3, ignoreEos: true } });
    expect(() => engine.submit({ id: 'x', promptIds: [1] })).toThrow(/'x' is already running/);
    expect((await first.output).tokenIds).toHaveLength(3);
    const full = await output(engine, { promptIds: new Array(30).fill(1), sampling: { ignoreEos: true } });
    expect(full).toMatchObject({ finishReason: 'length' });
    expect(full.tokenIds).toHaveLength(2);
    await engine.close();
    expect(() => engine.submit({ promptIds: [1] })).toThrow(/closed/);
  });

  it('tells everybody when a pass fails, and serves the next ones', async () => {
    let broken = true;
    const engine = new RolloutEngine(model, { maxNumSeqs: 4 }, (numBlocks, blockSize, ends) => {
      const runner = new AheadRunner(model, numBlocks, blockSize, ends);
      const decode = runner.decode.bind(runner);
      runner.decode = (sequences) => {
        if (broken) throw new Error('the device is gone');
        return decode(sequences);
      };
      return runner;
    });
    engines.push(engine);
    const lost = [1, 2, 3].map((token) =>
      output(engine, { promptIds: [token], sampling: { ignoreEos: true, maxTokens: 5 } }),
    );
    for (const one of lost) await expect(one).rejects.toThrow(/device is gone/);
    broken = false;
    expect(
      (await output(engine, { promptIds: [1], sampling: { ignoreEos: true, maxTokens: 5 } })).tokenIds,
    ).toHaveLength(5);
    expect(engine.stats.numFreeBlocks).toBe(engine.stats.numBlocks);
  });
});
