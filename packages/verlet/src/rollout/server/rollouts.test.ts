/** Who may ask, and agents whose calls are recorded because only their base URL or key was changed. */
import { createOpenAI } from '@ai-sdk/openai';
import { generateText, stepCountIs, tool } from 'ai';
import OpenAI from 'openai';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { byteTokenizer, END } from '../../../test/rollout/byte-tokenizer.js';
import { ScriptedEngine, scriptedLogProb } from '../../../test/rollout/scripted-engine.js';
import { CaptureSession } from '../../agents/capture/capture-session.js';
import { hermes } from '../../agents/tools/parsers/hermes.js';
import { type RunningServer, startServer, withCallHints } from './index.js';

let engine: ScriptedEngine;
let sessions: Map<string, CaptureSession>;
let server: RunningServer | undefined;

const CALL =
  '<think>two plus two</think>\n\nOne moment.<tool_call>\n{"name": "add", "arguments": {"a": 2, "b": 2}}\n</tool_call>';
const script = (prompt: string) => (prompt.includes('tool\n4') ? 'Four.' : CALL);

const start = async (options: Partial<Parameters<typeof startServer>[0]> = {}) => {
  server = await startServer({
    model: 'tiny',
    engine,
    tokenizer: byteTokenizer,
    toolCallParser: withCallHints(hermes),
    resolveSession: ({ rolloutId, apiKey }) => sessions.get(rolloutId ?? apiKey ?? ''),
    ...options,
  });
  return server;
};

beforeEach(() => {
  engine = new ScriptedEngine(script);
  const open = () =>
    new CaptureSession({ engine, tokenizer: byteTokenizer, config: { sampling: { temperature: 0.7, seed: 11 } } });
  sessions = new Map([
    ['rollout-a', open()],
    ['rollout-b', open()],
  ]);
});
afterEach(() => server?.close({ deadlineMs: 0 }));

const ask = { model: 'tiny', messages: [{ role: 'user' as const, content: 'Add 2 and 2.' }] };
const addTool = { type: 'function' as const, function: { name: 'add', parameters: { type: 'object' } } };

describe('recorded rollouts', () => {
  it('records an agent token by token when only its base URL was changed', async () => {
    const { url } = await start();
    const openai = createOpenAI({ baseURL: `${url}/r/rollout-a/v1`, apiKey: 'none' });
    const result = await generateText({
      model: openai('tiny'),
      prompt: 'Add 2 and 2.',
      tools: {
        add: tool({ inputSchema: z.object({ a: z.number(), b: z.number() }), execute: async ({ a, b }) => a + b }),
      },
      stopWhen: stepCountIs(3),
      maxRetries: 0,
    });
    expect(result.text).toBe('Four.');
    const [trajectory, ...others] = sessions.get('rollout-a')!.finish();
    expect(others).toHaveLength(0);
    // The second call goes on from the very tokens of the first, thinking included.
    const sampled = [...Buffer.from(CALL), END];
    const begun = [...trajectory!.promptIds, ...sampled];
    expect(Array.from(engine.requests[1]!.promptIds).slice(0, begun.length)).toEqual(begun);
    expect(trajectory!.responseIds.slice(0, sampled.length)).toEqual(sampled);
    expect(trajectory!.responseMask.filter(Boolean)).toHaveLength(sampled.length + 'Four.'.length + 1);
    expect(sessions.get('rollout-b')!.calls).toHaveLength(0);
  });

  it('answers like any server: tool calls, thinking apart, token ids, unique ids; streamed or not', async () => {
    const { url } = await start();
    const client = new OpenAI({ baseURL: `${url}/r/rollout-a/v1`, apiKey: 'none', maxRetries: 0 });
    const request = { ...ask, tools: [addTool], return_token_ids: true, logprobs: true };
    const whole = await client.chat.completions.create(request as OpenAI.ChatCompletionCreateParamsNonStreaming);
    expect(whole.choices[0]).toMatchObject({
      finish_reason: 'tool_calls',
      token_ids: [...Buffer.from(CALL), END],
      message: {
        content: expect.stringMatching(/^\s*One moment\.$/),
        reasoning_content: expect.stringContaining('two plus two'),
      },
    });
    expect(whole.choices[0]!.message.tool_calls).toMatchObject([
      { function: { name: 'add', arguments: '{"a":2,"b":2}' } },
    ]);
    expect(whole.choices[0]!.logprobs!.content![0]!.logprob).toBe(scriptedLogProb(60));
    const streamed = await client.chat.completions.stream({ ...ask, tools: [addTool] }).finalChatCompletion();
    expect(streamed.choices[0]!.message.tool_calls).toMatchObject([{ function: { name: 'add' } }]);
    expect(streamed.id).not.toBe(whole.id);
  });

  it('leaves the rollout’s sampling in place where the client has no opinion', async () => {
    const { url } = await start();
    const client = new OpenAI({ baseURL: `${url}/r/rollout-a/v1`, apiKey: 'none', maxRetries: 0 });
    await client.chat.completions.create({ ...ask, top_p: 0.5 });
    expect(engine.requests[0]!.sampling).toMatchObject({ temperature: 0.7, seed: 11, topP: 0.5 });
  });

  it('is the policy under any name that the agent has for its model', async () => {
    const { url } = await start();
    const client = new OpenAI({ baseURL: `${url}/r/rollout-a/v1`, apiKey: 'none', maxRetries: 0 });
    await client.chat.completions.create({ ...ask, model: 'gpt-5' });
    await client.responses.create({ model: 'gpt-5-mini', input: 'Add 2 and 2.' });
    expect(sessions.get('rollout-a')!.calls).toHaveLength(2);
  });

  it('forces calls where the agent asks for it, and does not train what it wrote for the model', async () => {
    engine = new ScriptedEngine((prompt) =>
      prompt.endsWith('"name": "add", "arguments": ') ? '{"a": 2, "b": 2}}\n</tool_call>' : 'Four.',
    );
    const session = new CaptureSession({ engine, tokenizer: byteTokenizer });
    sessions.set('forced', session);
    const { url } = await start();
    const client = new OpenAI({ baseURL: `${url}/r/forced/v1`, apiKey: 'none', maxRetries: 0 });
    const tool_choice = { type: 'function' as const, function: { name: 'add' } };
    const { choices } = await client.chat.completions.create({ ...ask, tools: [addTool], tool_choice });
    const call = choices[0]!.message.tool_calls![0]!;
    expect(call).toMatchObject({ function: { name: 'add', arguments: '{"a":2,"b":2}' } });
    await client.chat.completions.create({
      ...ask,
      tools: [addTool],
      messages: [...ask.messages, choices[0]!.message, { role: 'tool', tool_call_id: call.id, content: '4' }],
    });
    const [trajectory, ...others] = session.finish();
    expect(others).toEqual([]);
    const trained = trajectory!.responseIds.filter((_, k) => trajectory!.responseMask[k] === 1);
    expect(byteTokenizer.decode(trained, { skipSpecialTokens: true })).toBe('{"a": 2, "b": 2}}\n</tool_call>Four.');
  });

  it('finds the rollout by its API key, and knows no others', async () => {
    const { url } = await start();
    const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'rollout-b', maxRetries: 0 });
    await client.chat.completions.create(ask);
    expect(sessions.get('rollout-b')!.calls).toHaveLength(1);
    const gone = new OpenAI({ baseURL: `${url}/r/rollout-x/v1`, apiKey: 'none', maxRetries: 0 });
    await expect(gone.chat.completions.create(ask)).rejects.toMatchObject({ status: 404, code: 'rollout_not_found' });
  });

  it('refuses what could not be recorded truly', async () => {
    const { url } = await start();
    const client = new OpenAI({ baseURL: `${url}/r/rollout-a/v1`, apiKey: 'none', maxRetries: 0 });
    await expect(client.chat.completions.create({ ...ask, n: 2 })).rejects.toMatchObject({ status: 400, param: 'n' });
    await expect(client.chat.completions.create({ ...ask, tool_choice: 'required' })).rejects.toMatchObject({
      status: 400,
      param: 'tool_choice',
    });
    await expect(client.completions.create({ model: 'tiny', prompt: 'x' })).rejects.toMatchObject({
      status: 400,
      param: 'prompt',
    });
    const long = [{ role: 'user' as const, content: 'x'.repeat(9000) }];
    await expect(client.chat.completions.create({ ...ask, messages: long })).rejects.toMatchObject({
      status: 400,
      code: 'context_length_exceeded',
    });
    expect(sessions.get('rollout-a')!.calls).toHaveLength(0);
  });
});

describe('access', () => {
  const post = (path: string, key?: string, headers: Record<string, string> = {}) =>
    fetch(server!.url + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...(key ? { authorization: `Bearer ${key}` } : {}), ...headers },
      body: JSON.stringify(ask),
    }).then((response) => response.status);

  it('asks for the key when there is one; a rollout’s key opens that rollout only', async () => {
    await start({ apiKey: 'secret', control: true });
    expect(await post('/v1/chat/completions')).toBe(401);
    expect(await post('/v1/chat/completions', 'wrong')).toBe(401);
    expect(await post('/v1/chat/completions', 'secret')).toBe(200);
    expect(await post('/v1/chat/completions', 'rollout-a')).toBe(200);
    expect(await post('/r/rollout-a/v1/chat/completions', 'rollout-a')).toBe(200);
    expect(await post('/r/rollout-a/v1/chat/completions', 'secret')).toBe(200);
    expect(await post('/r/rollout-a/v1/chat/completions', 'rollout-b')).toBe(403);
    expect(await post('/r/rollout-a/v1/chat/completions')).toBe(401);
    expect(await post('/sleep', 'rollout-a')).toBe(403);
    expect(await post('/sleep', 'secret')).toBe(200);
    const get = (path: string) => fetch(server!.url + path).then((response) => response.status);
    expect(await get('/health')).toBe(200);
    expect(await get('/metrics')).toBe(401);
    expect(await get('/v1/models')).toBe(401);
  });

  it('does not listen beyond loopback without a key', async () => {
    await expect(start({ host: '0.0.0.0' })).rejects.toThrow(/refusing to listen on 0.0.0.0 without an API key/);
    await start({ host: '0.0.0.0', apiKey: 'secret' });
    expect(await post('/v1/chat/completions', 'secret')).toBe(200);
  });

  it('does not answer to a foreign name on loopback, nor offer control unasked', async () => {
    await start();
    expect(await post('/sleep')).toBe(404);
    const { request } = await import('node:http');
    const status = await new Promise<number | undefined>((resolve, reject) => {
      request(`${server!.url}/v1/models`, { headers: { host: 'evil.example' } }, (response) => {
        response.resume();
        resolve(response.statusCode);
      })
        .on('error', reject)
        .end();
    });
    expect(status).toBe(403);
  });
});
