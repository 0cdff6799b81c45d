/** The server over real sockets with plain fetch: what clients may rely on beyond what SDKs look at. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { byteTokenizer, END } from '../../../test/rollout/byte-tokenizer.js';
import { scriptedLogProb } from '../../../test/rollout/scripted-engine.js';
import { events, ids, ServerHarness } from '../../../test/rollout/server-harness.js';
import { TextStream } from './text-stream.js';

const harness = new ServerHarness();
const messages = [{ role: 'user', content: 'Hi' }];

describe('completions', () => {
  it('takes text and gives text, log-probs, token ids and usage', async () => {
    const answer = await harness.postJson('/v1/completions', {
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
    harness.engine.script = (prompt, sample) => `${prompt}${sample}`;
    const one = await harness.postJson('/v1/completions', { model: 'tiny', prompt: ids('a'), return_token_ids: true });
    expect(one.choices[0]).toMatchObject({ text: 'a0', prompt_token_ids: ids('a') });
    const many = await harness.postJson('/v1/completions', {
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
    await harness.postJson('/v1/completions', {
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
    expect(harness.engine.requests[0]!.sampling).toEqual({
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
    await harness.postJson('/v1/completions', { model: 'tiny', prompt: 'x', n: 2 });
    await harness.postJson('/v1/completions', { model: 'tiny', prompt: 'x' });
    const [first, second, other] = harness.engine.requests;
    expect(first!.sampling!.seed).toBe(second!.sampling!.seed);
    expect([first!.sampleIndex, second!.sampleIndex]).toEqual([0, 1]);
    expect(other!.sampling!.seed).not.toBe(first!.sampling!.seed);
  });

  it('streams the same text and token ids as it would give at once', async () => {
    const request = { model: 'tiny', prompt: 'Say', max_tokens: 100, logprobs: 1, return_token_ids: true };
    const whole = await harness.postJson('/v1/completions', request);
    const response = await harness.post('/v1/completions', {
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
      await harness.postJson('/v1/chat/completions', request),
      await harness.postJson('/v1/chat/completions', request),
    ];
    expect(first.prompt_token_ids).toEqual(byteTokenizer.encodeChat(messages, { addGenerationPrompt: true }));
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
    harness.engine.script = () => 'ä ö STOP never seen';
    const chunks = await events(
      await harness.post('/v1/chat/completions', { model: 'tiny', messages, stop: ['STOP'], stream: true }),
    );
    const deltas = chunks.slice(0, -1).map((chunk) => chunk.choices[0].delta.content ?? '');
    expect(deltas.join('')).toBe('ä ö ');
    expect(deltas.some((delta) => delta.includes('\uFFFD'))).toBe(false);
    expect(chunks.at(-2).choices[0]).toMatchObject({ finish_reason: 'stop', stop_reason: 'STOP' });

    harness.engine.script = () => 'one.two';
    const stopped = await harness.postJson('/v1/chat/completions', { model: 'tiny', messages, stop_token_ids: [46] });
    expect(stopped.choices[0]).toMatchObject({ message: { content: 'one' }, stop_reason: 46 });
  });

  it('reports length when tokens run out', async () => {
    const answer = await harness.postJson('/v1/chat/completions', {
      model: 'tiny',
      messages,
      max_completion_tokens: 4,
    });
    expect(answer.choices[0]).toMatchObject({ message: { content: 'Hell' }, finish_reason: 'length' });
  });

  it('gives each of n choices its own stream', async () => {
    harness.engine.script = (_, sample) => `choice ${sample}`;
    const chunks = await events(
      await harness.post('/v1/chat/completions', { model: 'tiny', messages, n: 3, stream: true }),
    );
    const texts = ['', '', ''];
    for (const { choices } of chunks.slice(0, -1)) texts[choices[0].index] += choices[0].delta.content ?? '';
    expect(texts).toEqual(['choice 0', 'choice 1', 'choice 2']);
  });

  const tools = [{ type: 'function', function: { name: 'add', parameters: { type: 'object' } } }];

  it('streams what comes before a tool call at once, then the call, and nothing of its markup', async () => {
    harness.engine.script = () => 'Let me add.\n<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>';
    const request = { model: 'tiny', messages, tools };
    const whole = await harness.postJson('/v1/chat/completions', request);
    expect(whole.choices[0]).toMatchObject({
      finish_reason: 'tool_calls',
      message: {
        content: 'Let me add.',
        tool_calls: [{ type: 'function', function: { name: 'add', arguments: '{"a":1}' } }],
      },
    });
    const chunks = (await events(await harness.post('/v1/chat/completions', { ...request, stream: true }))).slice(
      0,
      -1,
    );
    const deltas = chunks.map((chunk) => chunk.choices[0].delta);
    expect(deltas.filter((delta) => delta.content).length).toBeGreaterThan(1);
    expect(deltas.map((delta) => delta.content ?? '').join('')).toBe('Let me add.');
    const calls = deltas.flatMap((delta) => delta.tool_calls ?? []);
    expect(calls).toMatchObject([{ index: 0, function: { name: 'add', arguments: '{"a":1}' } }]);
    expect(calls[0].id).not.toBe(whole.choices[0].message.tool_calls[0].id);
  });

  it('hands a call that cannot be parsed over as text', async () => {
    harness.engine.script = () => '<tool_call>{"name": "add"';
    const answer = await harness.postJson('/v1/chat/completions', { model: 'tiny', messages, tools });
    expect(answer.choices[0]).toMatchObject({
      finish_reason: 'stop',
      message: { content: '<tool_call>{"name": "add"' },
    });
  });

  it('forces a call by beginning it, hides tools for "none", and keeps to one call when asked', async () => {
    harness.engine.script = (prompt) => (prompt.endsWith('"arguments": ') ? '{"a": 2}}\n</tool_call>' : 'no');
    const named = { type: 'function', function: { name: 'add' } };
    const forced = await harness.postJson('/v1/chat/completions', {
      model: 'tiny',
      messages,
      tools,
      tool_choice: named,
    });
    expect(forced.choices[0].message).toMatchObject({
      content: null,
      tool_calls: [{ function: { name: 'add', arguments: '{"a":2}' } }],
    });

    harness.engine.script = (prompt) => (prompt.includes('# Tools') ? 'tools seen' : '<tool_call> is only text here');
    const none = await harness.postJson('/v1/chat/completions', {
      model: 'tiny',
      messages,
      tools,
      tool_choice: 'none',
    });
    expect(none.choices[0].message.content).toBe('<tool_call> is only text here');

    const call = '<tool_call>{"name": "add", "arguments": {}}</tool_call>';
    harness.engine.script = () => call + call;
    const both = await harness.postJson('/v1/chat/completions', { model: 'tiny', messages, tools });
    const calls = both.choices[0].message.tool_calls;
    expect(new Set(calls.map((one: { id: string }) => one.id)).size).toBe(2);
    const single = await harness.postJson('/v1/chat/completions', {
      model: 'tiny',
      messages,
      tools,
      parallel_tool_calls: false,
    });
    expect(single.choices[0].message.tool_calls).toHaveLength(1);
  });

  it('gives templates tool arguments as objects, text parts as text, developer as system', async () => {
    let prompt = '';
    harness.engine.script = (text) => {
      prompt = text;
      return 'ok';
    };
    await harness.postJson('/v1/chat/completions', {
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
