/** What a request leaves behind, and where it ends. */
import { getEventListeners } from 'node:events';
import { manualSeed } from '@verlet/torch';
import { afterAll, expect, it } from 'vitest';
import { createCausalLM } from '../models/index.js';
import type { Tokenizer } from '../models/tokenizer/index.js';
import { RolloutEngine } from './engine.js';

manualSeed(3);
const model = createCausalLM({
  model_type: 'qwen2',
  hidden_size: 16,
  num_attention_heads: 2,
  num_key_value_heads: 1,
  num_hidden_layers: 1,
  intermediate_size: 16,
  vocab_size: 8,
  max_position_embeddings: 128,
  rms_norm_eps: 1e-6,
  tie_word_embeddings: true,
  eos_token_id: 0,
});
afterAll(() => model.dispose());

it('a signal that sees many requests keeps none of their listeners', async () => {
  const engine = new RolloutEngine(model, { maxNumSeqs: 4 });
  const { signal } = new AbortController();
  for (let k = 0; k < 12; k++) await engine.submit({ promptIds: [1, 2], sampling: { maxTokens: 2 }, signal }).output;
  const running = engine.submit({ promptIds: [1, 2], sampling: { maxTokens: 2 }, signal });
  expect(getEventListeners(signal, 'abort')).toHaveLength(1);
  await running.output;
  expect(getEventListeners(signal, 'abort')).toHaveLength(0);
  await engine.close();
});

it("ends at the tokenizer's end token as well as at the model's", async () => {
  const tokenizer = { eosTokenIds: [0, 5] } as unknown as Tokenizer;
  const engine = new RolloutEngine(model, { maxNumSeqs: 4, tokenizer });
  const outputs = await Promise.all(
    Array.from(
      { length: 24 },
      (_, sampleIndex) => engine.submit({ promptIds: [1, 2], sampling: { maxTokens: 64 }, sampleIndex }).output,
    ),
  );
  const reasons = new Set(outputs.map(({ stopReason }) => stopReason));
  expect(reasons).toEqual(new Set([0, 5]));
  expect(outputs.every(({ tokenIds }) => !tokenIds.slice(0, -1).some((id) => id === 0 || id === 5))).toBe(true);
  await engine.close();
});
