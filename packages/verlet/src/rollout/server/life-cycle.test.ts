/** What goes wrong, and how it ends: refusals, failures, clients that leave, shutdown. */
import { describe, expect, it, vi } from 'vitest';
import { events, ServerHarness } from '../../../test/rollout/server-harness.js';

const harness = new ServerHarness();
const messages = [{ role: 'user', content: 'Hi' }];

describe('errors', () => {
  const chat = { model: 'tiny', messages };
  it.each([
    ['an unknown model', { ...chat, model: 'huge' }, 404, 'model', 'model_not_found'],
    ['a missing model', { messages }, 400, 'model', 'missing_required_parameter'],
    ['no messages', { model: 'tiny', messages: [] }, 400, 'messages', 'invalid_value'],
    [
      'an unknown role',
      { model: 'tiny', messages: [{ role: 'boss', content: '' }] },
      400,
      'messages[0].role',
      'invalid_value',
    ],
    [
      'an image',
      { model: 'tiny', messages: [{ role: 'user', content: [{ type: 'image_url' }] }] },
      400,
      'messages[0].content[0]',
      'unsupported_parameter',
    ],
    [
      'a conversation the template refuses',
      { model: 'tiny', messages: [{ role: 'assistant', content: '' }] },
      400,
      'messages',
      'invalid_value',
    ],
    ['a negative temperature', { ...chat, temperature: -1 }, 400, 'temperature', 'invalid_value'],
    ['top_p above 1', { ...chat, top_p: 1.5 }, 400, 'top_p', 'invalid_value'],
    ['a text temperature', { ...chat, temperature: 'hot' }, 400, 'temperature', 'invalid_value'],
    ['no tokens', { ...chat, max_completion_tokens: -3 }, 400, 'max_completion_tokens', 'invalid_value'],
    ['n of 0', { ...chat, n: 0 }, 400, 'n', 'invalid_value'],
    ['too many choices', { ...chat, n: 1000 }, 400, 'n', 'invalid_value'],
    ['a stop token beyond the vocabulary', { ...chat, stop_token_ids: [9999] }, 400, 'stop_token_ids', 'invalid_value'],
    ['top_logprobs without logprobs', { ...chat, top_logprobs: 3 }, 400, 'top_logprobs', 'invalid_value'],
    ['too many top_logprobs', { ...chat, logprobs: true, top_logprobs: 50 }, 400, 'top_logprobs', 'invalid_value'],
    [
      'JSON mode',
      { ...chat, response_format: { type: 'json_object' } },
      400,
      'response_format',
      'unsupported_parameter',
    ],
    ['logit_bias', { ...chat, logit_bias: { 5: 1 } }, 400, 'logit_bias', 'unsupported_parameter'],
    ['a forced call without tools', { ...chat, tool_choice: 'required' }, 400, 'tool_choice', 'invalid_value'],
    [
      'a forced unknown tool',
      {
        ...chat,
        tools: [{ type: 'function', function: { name: 'f' } }],
        tool_choice: { type: 'function', function: { name: 'g' } },
      },
      400,
      'tool_choice',
      'invalid_value',
    ],
    [
      'an endless prompt',
      { model: 'tiny', messages: [{ role: 'user', content: 'x'.repeat(5000) }] },
      400,
      'messages',
      'context_length_exceeded',
    ],
    ['more tokens than fit', { ...chat, max_tokens: 4096 }, 400, 'messages', 'context_length_exceeded'],
    ['broken JSON', '{"model": ', 400, null, 'invalid_json'],
    ['not an object', '[]', 400, null, 'invalid_json'],
  ])('%s is refused by name', async (_, body, status, param, code) => {
    const response = await harness.post('/v1/chat/completions', body);
    expect(response.status).toBe(status);
    const { error } = (await response.json()) as { error: Record<string, unknown> };
    expect(error).toMatchObject({ param, code });
    expect(error.type).toBe(status === 404 ? 'not_found_error' : 'invalid_request_error');
    expect(String(error.message).length).toBeGreaterThan(10);
    expect(harness.engine.requests).toHaveLength(0);
  });

  it.each([[''], [[]], [[[]]], [['a', '']]])('refuses the empty prompt %j', async (prompt) => {
    const { error } = await harness.postJson('/v1/completions', { model: 'tiny', prompt });
    expect(error).toMatchObject({ param: 'prompt', code: 'invalid_value' });
  });

  it('names the numbers of a context overflow', async () => {
    const { error } = await harness.postJson('/v1/completions', { model: 'tiny', prompt: 'x'.repeat(5000) });
    expect(error.message).toContain('4096');
    expect(error.message).toContain('5000');
  });

  it('refuses bodies that are too large or not JSON, and unknown paths', async () => {
    await harness.restart({ maxBodyBytes: 2000 });
    const large = await harness.post('/v1/chat/completions', { ...chat, user: 'x'.repeat(3000) });
    expect([large.status, (await large.json()).error.code]).toEqual([413, 'request_too_large']);
    const plain = await harness.post('/v1/chat/completions', chat, { 'content-type': 'text/plain' });
    expect(plain.status).toBe(415);
    const unknown = await fetch(`${harness.server.url}/v1/embeddings`);
    expect([unknown.status, (await unknown.json()).error.code]).toEqual([404, 'unknown_url']);
  });

  it('answers an engine failure with 500, or with an error event when text has gone out', async () => {
    const seen: unknown[] = [];
    await harness.restart({ onError: (error) => seen.push(error) });
    harness.engine.failAt = 3;
    const response = await harness.post('/v1/chat/completions', chat);
    expect([response.status, (await response.json()).error.type]).toEqual([500, 'server_error']);
    harness.engine.failAt = 3;
    const chunks = await events(await harness.post('/v1/chat/completions', { ...chat, stream: true }));
    expect(chunks.at(-1).error.message).toContain('fell off the bus');
    expect(seen).toHaveLength(2);
    expect((await fetch(`${harness.server.url}/health`)).status).toBe(200);
  });

  it('does not let the other choices run on when one has failed', async () => {
    await harness.restart({ onError: () => {} });
    harness.engine.failAt = 3;
    harness.engine.hangAfter = 6;
    expect((await harness.post('/v1/chat/completions', { ...chat, n: 3 })).status).toBe(500);
    const reasons = () => harness.engine.outputs.slice(1).map((output) => output.finishReason);
    await vi.waitFor(() => expect(reasons()).toEqual(['abort', 'abort']));
  });

  it('ends a request that runs too long with 504', async () => {
    await harness.restart({ requestTimeoutMs: 50 });
    harness.engine.hangAfter = 2;
    const response = await harness.post('/v1/chat/completions', chat);
    expect([response.status, (await response.json()).error.code]).toEqual([504, 'timeout']);
    expect(harness.engine.outputs[0]!.finishReason).toBe('abort');
  });
});

describe('life cycle', () => {
  const chat = { model: 'tiny', messages };

  it.each([true, false])('aborts the generation when the client leaves (stream: %s)', async (stream) => {
    harness.engine.hangAfter = 3;
    const client = new AbortController();
    const request = harness
      .post('/v1/chat/completions', { ...chat, n: 2, stream }, {}, client.signal)
      .then((response) => response.text());
    await vi.waitFor(() => expect(harness.engine.outputs.map((output) => output.tokenIds.length)).toEqual([3, 3]));
    client.abort();
    await expect(request).rejects.toThrow();
    await vi.waitFor(() =>
      expect(harness.engine.outputs.map((output) => output.finishReason)).toEqual(['abort', 'abort']),
    );
    await vi.waitFor(() => expect(harness.server.metrics.running).toBe(0));
    expect(harness.server.metrics.abortedRequests).toBe(1);
  });

  it('lets running requests finish on shutdown and refuses new ones', async () => {
    let release = () => {};
    const gate = new Promise<void>((resolve) => (release = resolve));
    const submit = harness.engine.submit.bind(harness.engine);
    harness.engine.submit = (request) => {
      const generation = submit(request);
      return {
        ...generation,
        output: generation.output,
        async *[Symbol.asyncIterator]() {
          yield* generation;
          await gate;
        },
      };
    };
    const running = harness.postJson('/v1/chat/completions', chat);
    await vi.waitFor(() => expect(harness.server.metrics.running).toBe(1));
    const closed = harness.server.close({ deadlineMs: 60_000 });
    await expect(fetch(`${harness.server.url}/health`).then((response) => response.status)).rejects.toThrow();
    release();
    expect((await running).choices[0].message.content).toBe('Hello, wörld!');
    await closed;
  });

  it('cuts off what still runs at the deadline, and says so', async () => {
    harness.engine.hangAfter = 2;
    const whole = harness.post('/v1/chat/completions', chat);
    const streamed = harness.post('/v1/chat/completions', { ...chat, stream: true }).then(events);
    await vi.waitFor(() => expect(harness.server.metrics.running).toBe(2));
    await harness.server.close({ deadlineMs: 20 });
    const response = await whole;
    expect([response.status, (await response.json()).error.code]).toEqual([503, 'shutting_down']);
    expect((await streamed).at(-1).error.code).toBe('shutting_down');
    expect(harness.engine.outputs.every((output) => output.finishReason === 'abort')).toBe(true);
  });

  it('lists its model, is healthy, and counts', async () => {
    const models = await (await fetch(`${harness.server.url}/v1/models`)).json();
    expect(models).toMatchObject({ object: 'list', data: [{ id: 'tiny', object: 'model', max_model_len: 4096 }] });
    expect(await (await fetch(`${harness.server.url}/v1/models/tiny`)).json()).toMatchObject({ id: 'tiny' });
    expect((await fetch(`${harness.server.url}/v1/models/other`)).status).toBe(404);
    expect(await (await fetch(`${harness.server.url}/health`)).json()).toEqual({ status: 'ok' });
    await harness.postJson('/v1/chat/completions', chat);
    await harness.postJson('/v1/chat/completions', { ...chat, temperature: -1 });
    const metrics = await (await fetch(`${harness.server.url}/metrics`)).text();
    expect(metrics).toContain('verlet_requests_total{endpoint="chat_completions",status="200"} 1');
    expect(metrics).toContain('verlet_requests_total{endpoint="chat_completions",status="400"} 1');
    expect(metrics).toContain('verlet_generation_tokens_total 15');
    expect(metrics).toContain('verlet_requests_running 0');
    expect(metrics).toContain('verlet_time_to_first_token_seconds_count 1');
    for (const line of metrics.trim().split('\n')) {
      expect(line).toMatch(/^(# (HELP|TYPE) \w+ .+|\w+(\{[^}]*\})? [\d.eE+-]+)$/);
    }
  });
});
