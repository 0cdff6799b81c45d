/** The server with a real byte-level BPE tokenizer and its chat template: tokens that hold half a character or many. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import OpenAI from 'openai';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { ScriptedEngine } from '../../../test/rollout/scripted-engine.js';
import { hermes } from '../../agents/tools/parsers/hermes.js';
import { CHATML_TEMPLATE, type Tokenizer, trainBpe } from '../../models/tokenizer/index.js';
import { type RunningServer, startServer, withCallHints } from './index.js';

const folder = mkdtempSync(join(tmpdir(), 'verlet-server-'));
let tokenizer: Tokenizer;
let engine: ScriptedEngine;
let server: RunningServer;
let client: OpenAI;

beforeAll(async () => {
  const corpus = ['The weather in Zürich is fine today, 18 °C.', 'Was kostet das Brötchen? 1,50 €.', '天地玄黄 👋🏽'];
  tokenizer = await trainBpe(corpus, { vocabSize: 400, folder, chatTemplate: CHATML_TEMPLATE });
  engine = new ScriptedEngine(() => '', 4096, tokenizer, tokenizer.eosTokenId!);
  server = await startServer({
    model: 'bpe',
    engine,
    tokenizer,
    vocabSize: tokenizer.vocabSize,
    toolCallParser: withCallHints(hermes),
  });
  client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'none', maxRetries: 0 });
});
afterAll(async () => {
  await server.close({ deadlineMs: 0 });
  rmSync(folder, { recursive: true, force: true });
});

const messages = [{ role: 'user' as const, content: 'Wie geht’s?' }];

it('streams any text to what it was, with the ids that were sampled', async () => {
  const text = fc.array(
    fc.oneof(fc.string({ unit: 'grapheme', maxLength: 6 }), fc.constantFrom('Zürich', '18 °C', '天地', '👋🏽', ' ')),
    { maxLength: 6 },
  );
  await fc.assert(
    fc.asyncProperty(text, async (parts) => {
      const said = parts.join('').toWellFormed().normalize('NFC'); // As the tokenizer does.
      engine.script = () => said;
      const stream = await client.chat.completions.create({
        model: 'bpe',
        messages,
        stream: true,
        return_token_ids: true,
      } as OpenAI.ChatCompletionCreateParamsStreaming);
      let shown = '';
      const tokenIds: number[] = [];
      for await (const { choices } of stream) {
        shown += choices[0]?.delta.content ?? '';
        tokenIds.push(...((choices[0] as { token_ids?: number[] } | undefined)?.token_ids ?? []));
      }
      expect(shown).toBe(said);
      expect(tokenIds).toEqual([...tokenizer.encode(said), tokenizer.eosTokenId]);
    }),
    { numRuns: 30 },
  );
});

it('prompts with the model’s own chat template, tools included', async () => {
  engine.script = () => 'Gut.';
  const tools = [{ type: 'function' as const, function: { name: 'add', parameters: { type: 'object' } } }];
  const answer = await client.chat.completions.create({ model: 'bpe', messages, tools });
  expect(answer.choices[0]!.message.content).toBe('Gut.');
  const expected = tokenizer.encodeChat(messages, { tools, addGenerationPrompt: true });
  expect(engine.requests.at(-1)!.promptIds).toEqual([...expected]);
});
