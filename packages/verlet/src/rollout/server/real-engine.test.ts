/** Model, engine, server and HTTP engine together: what comes through the network is what the engine sampled. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { createCausalLM } from '../../models/index.js';
import { CHATML_TEMPLATE, type Tokenizer, trainBpe } from '../../models/tokenizer/index.js';
import { RolloutEngine } from '../engine.js';
import { HttpEngine } from '../http-engine.js';
import { type RunningServer, startServer } from './index.js';

const folder = mkdtempSync(join(tmpdir(), 'verlet-real-engine-'));
let tokenizer: Tokenizer;
let engine: RolloutEngine;
let server: RunningServer;
let remote: HttpEngine;

beforeAll(async () => {
  tokenizer = await trainBpe(['hello world, how are you today'], {
    vocabSize: 290,
    folder,
    chatTemplate: CHATML_TEMPLATE,
  });
  const model = createCausalLM({
    model_type: 'qwen2',
    hidden_size: 32,
    num_attention_heads: 4,
    num_key_value_heads: 2,
    num_hidden_layers: 2,
    intermediate_size: 64,
    vocab_size: tokenizer.vocabSize,
    max_position_embeddings: 512,
    rms_norm_eps: 1e-6,
    tie_word_embeddings: true,
    eos_token_id: tokenizer.eosTokenId,
  });
  engine = new RolloutEngine(model, { tokenizer, maxNumSeqs: 16 });
  server = await startServer({ model: 'tiny', engine, tokenizer, vocabSize: tokenizer.vocabSize });
  remote = await HttpEngine.connect({ baseUrl: server.url, endTokenIds: tokenizer.eosTokenIds });
});
afterAll(async () => {
  await remote.close();
  await server.close({ deadlineMs: 0 });
  await engine.close();
  rmSync(folder, { recursive: true, force: true });
});

it.each([
  ['greedy', { temperature: 0, maxTokens: 20 }],
  ['seeded, with alternatives', { seed: 7, maxTokens: 20, topLogProbs: 3 }],
  ['truncated, with a stop string', { seed: 9, temperature: 0.8, topP: 0.9, maxTokens: 60, stop: ['e'] }],
])('is the same near and far: %s', async (_, sampling) => {
  const promptIds = Array.from(tokenizer.encode('hello world'));
  const near = await engine.submit({ promptIds, sampling }).output;
  const far = await remote.submit({ promptIds, sampling }).output;
  const { tokenIds, logProbs, topLogProbs, finishReason, stopReason } = near;
  expect(far).toMatchObject({ tokenIds, logProbs, finishReason, stopReason });
  if ('topLogProbs' in sampling) expect(far.topLogProbs).toEqual(topLogProbs);
});

it('frees what a client that left had taken', async () => {
  const client = new AbortController();
  const request = fetch(`${server.url}/v1/completions`, {
    method: 'POST',
    signal: client.signal,
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'tiny', prompt: 'hello', n: 4, max_tokens: 500, ignore_eos: true }),
  });
  await vi.waitFor(() => expect(engine.stats.numRunning).toBe(4), { timeout: 20_000 });
  client.abort();
  await expect(request).rejects.toThrow();
  await vi.waitFor(() => expect(engine.stats).toMatchObject({ numRunning: 0, numWaiting: 0 }), { timeout: 20_000 });
});

it('refuses tokens that the model does not have', async () => {
  await expect(remote.submit({ promptIds: [99_999] }).output).rejects.toMatchObject({ status: 400 });
});
