/** The server over real sockets with plain fetch: what clients may rely on beyond what SDKs look at. */
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { byteTokenizer, END, VOCAB_SIZE } from '../../../test/rollout/byte-tokenizer.js';
import { ScriptedEngine, scriptedLogProb } from '../../../test/rollout/scripted-engine.js';
import { hermes } from '../../agents/tools/parsers/hermes.js';
import { type ListenOptions, type RunningServer, startServer, withCallHints } from './index.js';
import { TextStream } from './text-stream.js';

let engine: ScriptedEngine;
let server: RunningServer;
const options = (): ListenOptions => ({
  model: 'tiny',
  engine,
  tokenizer: byteTokenizer,
  vocabSize: VOCAB_SIZE,
  toolCallParser: withCallHints(hermes),
});

beforeEach(async () => {
  engine = new ScriptedEngine(() => 'Hello, wörld!');
  server = await startServer(options());
});

afterEach(() => server.close({ deadlineMs: 0 }));

function post(path: string, body: unknown, headers: Record<string, string> = {}, signal?: AbortSignal) {
  return fetch(server.url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: typeof body === 'string' ? body : JSON.stringify(body),
    signal,
  });
}

// biome-ignore lint/suspicious/noExplicitAny: answers are checked by the expectations
const postJson = async (path: string, body: unknown): Promise<any> => (await post(path, body)).json();

// biome-ignore lint/suspicious/noExplicitAny: as above
async function events(response: Response): Promise<any[]> {
  const text = await response.text();
  const data = text.split('\n\n').filter(Boolean);
  return data
    .map((block) => block.replace(/^event: .*\n/, '').slice('data: '.length))
    .map((line) => (line === '[DONE]' ? line : JSON.parse(line)));
}

const ids = (text: string) => [...Buffer.from(text)];
const messages = [{ role: 'user', content: 'Hi' }];

describe('completions', () => {
  it('takes text and gives text, log-probs, token ids and usage', async () => {
    const answer = await postJson('/v1/completions', {
      model: 'tiny',
      prompt: 'Say',
      max_tokens: 100,
      logprobs: 2,
      return_token_ids: true,
    });
    const sampled = [...ids('Hello, wörld!'), END];
    expect(answer.choices).toHaveLength(1);
    expect(answer.choices[0]).toMatchObject({
      text: 'Hello, wörld!',
      finish_reason: 'stop',
      stop_reason: END,
      token_ids: sampled,
      prompt_token_ids: ids('Say'),
    });
    const { logprobs } = answer.choices[0];
    expect(logprobs.token_logprobs).toEqual(sampled.map(scriptedLogProb));
    expect(logprobs.tokens.slice(0, 3)).toEqual(['H', 'e', 'l']);
    expect(Object.keys(logprobs.top_logprobs[0])).toHaveLength(2);
    expect(logprobs.text_offset.slice(0, 3)).toEqual([0, 1, 2]);
    expect(answer.usage).toMatchObject({ prompt_tokens: 3, completion_tokens: 15, total_tokens: 18 });
  });

  it('takes token ids as prompts, one or several, n samples each, in order', async () => {
    engine.script = (prompt, sample) => `${prompt}${sample}`;
    const one = await postJson('/v1/completions', { model: 'tiny', prompt: ids('a'), return_token_ids: true });
    expect(one.choices[0]).toMatchObject({ text: 'a0', prompt_token_ids: ids('a') });
    const many = await postJson('/v1/completions', {
      model: 'tiny',
      prompt: [ids('a'), ids('b')],
      n: 2,
      return_token_ids: true,
    });
    expect(many.choices.map((choice: { text: string }) => choice.text)).toEqual(['a0', 'a1', 'b0', 'b1']);
    expect(many.choices[3].prompt_token_ids).toEqual(ids('b'));
    expect(many.choices.map((choice: { index: number }) => choice.index)).toEqual([0, 1, 2, 3]);
  });

  it('passes every sampling parameter on to the engine', async () => {
    await postJson('/v1/completions', {
      model: 'tiny',
      prompt: 'x',
      temperature: 0.5,
      top_p: 0.9,
      top_k: 7,
      min_p: 0.1,
      repetition_penalty: 1.1,
      presence_penalty: 0.2,
      frequency_penalty: 0.3,
      stop: 'END',
      stop_token_ids: [10],
      ignore_eos: true,
      min_tokens: 1,
      max_tokens: 5,
      seed: 42,
    });
    expect(engine.requests[0]!.sampling).toEqual({
      temperature: 0.5,
      topP: 0.9,
      topK: 7,
      minP: 0.1,
      repetitionPenalty: 1.1,
      presencePenalty: 0.2,
      frequencyPenalty: 0.3,
      stop: ['END'],
      stopTokenIds: [10],
      ignoreEos: true,
      minTokens: 1,
      maxTokens: 5,
      seed: 42,
      topLogProbs: 0,
    });
  });

  it('gives unseeded requests different seeds, and the samples of one request the same seed', async () => {
    await postJson('/v1/completions', { model: 'tiny', prompt: 'x', n: 2 });
    await postJson('/v1/completions', { model: 'tiny', prompt: 'x' });
    const [first, second, other] = engine.requests;
    expect(first!.sampling!.seed).toBe(second!.sampling!.seed);
    expect([first!.sampleIndex, second!.sampleIndex]).toEqual([0, 1]);
    expect(other!.sampling!.seed).not.toBe(first!.sampling!.seed);
  });

  it('streams the same text and token ids as it would give at once', async () => {
    const request = { model: 'tiny', prompt: 'Say', max_tokens: 100, logprobs: 1, return_token_ids: true };
    const whole = await postJson('/v1/completions', request);
    const response = await post('/v1/completions', {
      ...request,
      stream: true,
      stream_options: { include_usage: true },
    });
    expect(response.headers.get('content-type')).toContain('text/event-stream');
    const chunks = await events(response);
    expect(chunks.at(-1)).toBe('[DONE]');
    expect(chunks.at(-2)).toMatchObject({ choices: [], usage: whole.usage });
    const choices = chunks.slice(0, -2).flatMap((chunk) => chunk.choices);
    expect(choices.map((choice) => choice.text).join('')).toBe(whole.choices[0].text);
    expect(choices.flatMap((choice) => choice.token_ids)).toEqual(whole.choices[0].token_ids);
    expect(choices.flatMap((choice) => choice.logprobs.token_logprobs)).toEqual(
      whole.choices[0].logprobs.token_logprobs,
    );
    expect(choices.flatMap((choice) => choice.logprobs.text_offset)).toEqual(whole.choices[0].logprobs.text_offset);
    expect(choices.filter((choice) => choice.prompt_token_ids)).toHaveLength(1);
    expect(choices.at(-1).finish_reason).toBe('stop');
  });
});

describe('chat completions', () => {
  it('renders the conversation and answers with ids, usage and vLLM’s token ids', async () => {
    const request = { model: 'tiny', messages, return_token_ids: true, logprobs: true, top_logprobs: 2 };
    const [first, second] = [
      await postJson('/v1/chat/completions', request),
      await postJson('/v1/chat/completions', request),
    ];
    expect(first.prompt_token_ids).toEqual(byteTokenizer.encodeChat(messages));
    expect(first.choices[0]).toMatchObject({
      message: { role: 'assistant', content: 'Hello, wörld!' },
      finish_reason: 'stop',
      token_ids: [...ids('Hello, wörld!'), END],
    });
    expect(first.choices[0].logprobs.content).toHaveLength(15);
    expect(first.choices[0].logprobs.content[0]).toEqual({
      token: 'H',
      logprob: scriptedLogProb(72),
      bytes: [72],
      top_logprobs: [
        { token: 'H', logprob: scriptedLogProb(72), bytes: [72] },
        { token: 'B', logprob: scriptedLogProb(72) - 1, bytes: [66] },
      ],
    });
    expect(first.id).not.toBe(second.id);
    expect(first.usage.prompt_tokens).toBe(first.prompt_token_ids.length);
  });

  it('keeps half characters, stop strings and stop tokens out of the stream', async () => {
    engine.script = () => 'ä ö STOP never seen';
    const chunks = await events(
      await post('/v1/chat/completions', { model: 'tiny', messages, stop: ['STOP'], stream: true }),
    );
    const deltas = chunks.slice(0, -1).map((chunk) => chunk.choices[0].delta.content ?? '');
    expect(deltas.join('')).toBe('ä ö ');
    expect(deltas.some((delta) => delta.includes('\uFFFD'))).toBe(false);
    expect(chunks.at(-2).choices[0]).toMatchObject({ finish_reason: 'stop', stop_reason: 'STOP' });

    engine.script = () => 'one.two';
    const stopped = await postJson('/v1/chat/completions', { model: 'tiny', messages, stop_token_ids: [46] });
    expect(stopped.choices[0]).toMatchObject({ message: { content: 'one' }, stop_reason: 46 });
  });

  it('reports length when tokens run out', async () => {
    const answer = await postJson('/v1/chat/completions', { model: 'tiny', messages, max_completion_tokens: 4 });
    expect(answer.choices[0]).toMatchObject({ message: { content: 'Hell' }, finish_reason: 'length' });
  });

  it('gives each of n choices its own stream', async () => {
    engine.script = (_, sample) => `choice ${sample}`;
    const chunks = await events(await post('/v1/chat/completions', { model: 'tiny', messages, n: 3, stream: true }));
    const texts = ['', '', ''];
    for (const { choices } of chunks.slice(0, -1)) texts[choices[0].index] += choices[0].delta.content ?? '';
    expect(texts).toEqual(['choice 0', 'choice 1', 'choice 2']);
  });

  const tools = [{ type: 'function', function: { name: 'add', parameters: { type: 'object' } } }];

  it('streams what comes before a tool call at once, then the call, and nothing of its markup', async () => {
    engine.script = () => 'Let me add.\n<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>';
    const request = { model: 'tiny', messages, tools };
    const whole = await postJson('/v1/chat/completions', request);
    expect(whole.choices[0]).toMatchObject({
      finish_reason: 'tool_calls',
      message: {
        content: 'Let me add.',
        tool_calls: [{ type: 'function', function: { name: 'add', arguments: '{"a":1}' } }],
      },
    });
    const chunks = (await events(await post('/v1/chat/completions', { ...request, stream: true }))).slice(0, -1);
    const deltas = chunks.map((chunk) => chunk.choices[0].delta);
    expect(deltas.filter((delta) => delta.content).length).toBeGreaterThan(5);
    expect(deltas.map((delta) => delta.content ?? '').join('')).toBe('Let me add.');
    const calls = deltas.flatMap((delta) => delta.tool_calls ?? []);
    expect(calls).toMatchObject([{ index: 0, function: { name: 'add', arguments: '{"a":1}' } }]);
    expect(calls[0].id).not.toBe(whole.choices[0].message.tool_calls[0].id);
  });

  it('hands a call that cannot be parsed over as text', async () => {
    engine.script = () => '<tool_call>{"name": "add"';
    const answer = await postJson('/v1/chat/completions', { model: 'tiny', messages, tools });
    expect(answer.choices[0]).toMatchObject({
      finish_reason: 'stop',
      message: { content: '<tool_call>{"name": "add"' },
    });
  });

  it('forces a call by beginning it, hides tools for "none", and keeps to one call when asked', async () => {
    engine.script = (prompt) => (prompt.endsWith('"arguments": ') ? '{"a": 2}}\n</tool_call>' : 'no');
    const named = { type: 'function', function: { name: 'add' } };
    const forced = await postJson('/v1/chat/completions', { model: 'tiny', messages, tools, tool_choice: named });
    expect(forced.choices[0].message).toMatchObject({
      content: null,
      tool_calls: [{ function: { name: 'add', arguments: '{"a":2}' } }],
    });

    engine.script = (prompt) => (prompt.includes('# Tools') ? 'tools seen' : '<tool_call> is only text here');
    const none = await postJson('/v1/chat/completions', { model: 'tiny', messages, tools, tool_choice: 'none' });
    expect(none.choices[0].message.content).toBe('<tool_call> is only text here');

    const call = '<tool_call>{"name": "add", "arguments": {}}</tool_call>';
    engine.script = () => call + call;
    const both = await postJson('/v1/chat/completions', { model: 'tiny', messages, tools });
    const calls = both.choices[0].message.tool_calls;
    expect(new Set(calls.map((one: { id: string }) => one.id)).size).toBe(2);
    const single = await postJson('/v1/chat/completions', {
      model: 'tiny',
      messages,
      tools,
      parallel_tool_calls: false,
    });
    expect(single.choices[0].message.tool_calls).toHaveLength(1);
  });

  it('gives templates tool arguments as objects, text parts as text, developer as system', async () => {
    let prompt = '';
    engine.script = (text) => {
      prompt = text;
      return 'ok';
    };
    await postJson('/v1/chat/completions', {
      model: 'tiny',
      chat_template_kwargs: { enable_thinking: false },
      messages: [
        { role: 'developer', content: 'Be brief.' },
        {
          role: 'user',
          content: [
            { type: 'text', text: 'one ' },
            { type: 'text', text: 'two' },
          ],
        },
        {
          role: 'assistant',
          content: null,
          tool_calls: [{ id: 'c', type: 'function', function: { name: 'f', arguments: '{"x":1}' } }],
        },
        { role: 'tool', tool_call_id: 'c', content: '42' },
      ],
    });
    expect(prompt).toContain('system\nBe brief.');
    expect(prompt).toContain('user\none two');
    expect(prompt).toContain('"arguments":{"x":1}');
    expect(prompt).toContain('tool\n42');
    expect(prompt).toContain('{"enable_thinking":false}');
  });
});

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
    const response = await post('/v1/chat/completions', body);
    expect(response.status).toBe(status);
    const { error } = (await response.json()) as { error: Record<string, unknown> };
    expect(error).toMatchObject({ param, code });
    expect(error.type).toBe(status === 404 ? 'not_found_error' : 'invalid_request_error');
    expect(String(error.message).length).toBeGreaterThan(10);
    expect(engine.requests).toHaveLength(0);
  });

  it('names the numbers of a context overflow', async () => {
    const { error } = await postJson('/v1/completions', { model: 'tiny', prompt: 'x'.repeat(5000) });
    expect(error.message).toContain('4096');
    expect(error.message).toContain('5000');
  });

  it('refuses bodies that are too large or not JSON, and unknown paths', async () => {
    await server.close();
    server = await startServer({ ...options(), maxBodyBytes: 2000 });
    const large = await post('/v1/chat/completions', { ...chat, user: 'x'.repeat(3000) });
    expect([large.status, (await large.json()).error.code]).toEqual([413, 'request_too_large']);
    const plain = await post('/v1/chat/completions', chat, { 'content-type': 'text/plain' });
    expect(plain.status).toBe(415);
    const unknown = await fetch(`${server.url}/v1/embeddings`);
    expect([unknown.status, (await unknown.json()).error.code]).toEqual([404, 'unknown_url']);
  });

  it('answers an engine failure with 500, or with an error event when text has gone out', async () => {
    await server.close();
    const seen: unknown[] = [];
    server = await startServer({ ...options(), onError: (error) => seen.push(error) });
    engine.failAt = 3;
    const response = await post('/v1/chat/completions', chat);
    expect([response.status, (await response.json()).error.type]).toEqual([500, 'server_error']);
    engine.failAt = 3;
    const chunks = await events(await post('/v1/chat/completions', { ...chat, stream: true }));
    expect(chunks.at(-1).error.message).toContain('fell off the bus');
    expect(seen).toHaveLength(2);
    expect((await fetch(`${server.url}/health`)).status).toBe(200);
  });

  it('ends a request that runs too long with 504', async () => {
    await server.close();
    server = await startServer({ ...options(), requestTimeoutMs: 50 });
    engine.hangAfter = 2;
    const response = await post('/v1/chat/completions', chat);
    expect([response.status, (await response.json()).error.code]).toEqual([504, 'timeout']);
    expect(engine.outputs[0]!.finishReason).toBe('abort');
  });
});

describe('life cycle', () => {
  const chat = { model: 'tiny', messages };

  it.each([true, false])('aborts the generation when the client leaves (stream: %s)', async (stream) => {
    engine.hangAfter = 3;
    const client = new AbortController();
    const request = post('/v1/chat/completions', { ...chat, n: 2, stream }, {}, client.signal).then((response) =>
      response.text(),
    );
    await vi.waitFor(() => expect(engine.outputs.map((output) => output.tokenIds.length)).toEqual([3, 3]));
    client.abort();
    await expect(request).rejects.toThrow();
    await vi.waitFor(() => expect(engine.outputs.map((output) => output.finishReason)).toEqual(['abort', 'abort']));
    await vi.waitFor(() => expect(server.metrics.running).toBe(0));
    expect(server.metrics.abortedRequests).toBe(1);
  });

  it('lets running requests finish on shutdown and refuses new ones', async () => {
    let release = () => {};
    const gate = new Promise<void>((resolve) => (release = resolve));
    const submit = engine.submit.bind(engine);
    engine.submit = (request) => {
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
    const running = postJson('/v1/chat/completions', chat);
    await vi.waitFor(() => expect(server.metrics.running).toBe(1));
    const closed = server.close({ deadlineMs: 60_000 });
    await expect(fetch(`${server.url}/health`).then((response) => response.status)).rejects.toThrow();
    release();
    expect((await running).choices[0].message.content).toBe('Hello, wörld!');
    await closed;
  });

  it('cuts off what still runs at the deadline, and says so', async () => {
    engine.hangAfter = 2;
    const whole = post('/v1/chat/completions', chat);
    const streamed = post('/v1/chat/completions', { ...chat, stream: true }).then(events);
    await vi.waitFor(() => expect(server.metrics.running).toBe(2));
    await server.close({ deadlineMs: 20 });
    const response = await whole;
    expect([response.status, (await response.json()).error.code]).toEqual([503, 'shutting_down']);
    expect((await streamed).at(-1).error.code).toBe('shutting_down');
    expect(engine.outputs.every((output) => output.finishReason === 'abort')).toBe(true);
  });

  it('lists its model, is healthy, and counts', async () => {
    const models = await (await fetch(`${server.url}/v1/models`)).json();
    expect(models).toMatchObject({ object: 'list', data: [{ id: 'tiny', object: 'model', max_model_len: 4096 }] });
    expect(await (await fetch(`${server.url}/v1/models/tiny`)).json()).toMatchObject({ id: 'tiny' });
    expect((await fetch(`${server.url}/v1/models/other`)).status).toBe(404);
    expect(await (await fetch(`${server.url}/health`)).json()).toEqual({ status: 'ok' });
    await postJson('/v1/chat/completions', chat);
    await postJson('/v1/chat/completions', { ...chat, temperature: -1 });
    const metrics = await (await fetch(`${server.url}/metrics`)).text();
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

describe('text stream', () => {
  it('shows, in pieces, exactly the text before the first stop string', () => {
    const stops = fc.array(fc.string({ minLength: 1, maxLength: 3, unit: fc.constantFrom('a', 'b', 'ö') }), {
      maxLength: 3,
    });
    fc.assert(
      fc.property(fc.string({ maxLength: 30, unit: fc.constantFrom('a', 'b', 'ö', '🙂') }), stops, (text, stop) => {
        const stream = new TextStream({ detokenizer: byteTokenizer.detokenizer(), stop, isStopToken: () => false });
        const shown = ids(text).map((id) => stream.push(id));
        shown.push(stream.end(false));
        const cuts = stop.map((needle) => text.indexOf(needle)).filter((at) => at >= 0);
        expect(shown.join('')).toBe(cuts.length > 0 ? earliestCompleted(text, stop) : text);
      }),
    );
  });

  /** Generation ends with the first stop string to be complete, not the first to begin. */
  function earliestCompleted(text: string, stop: string[]): string {
    for (let end = 1; end <= text.length; end++) {
      const found = stop.map((needle) => text.slice(0, end).indexOf(needle)).filter((at) => at >= 0);
      if (found.length > 0) return text.slice(0, Math.min(...found));
    }
    return text;
  }
});
