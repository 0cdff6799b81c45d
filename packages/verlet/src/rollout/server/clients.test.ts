/** The SDKs people build agents with, unmodified, against the server: each must complete a tool-calling conversation. */
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { tool as langchainTool } from '@langchain/core/tools';
import { createReactAgent } from '@langchain/langgraph/prebuilt';
import { ChatOpenAI } from '@langchain/openai';
import { generateText, type LanguageModel, stepCountIs, streamText, tool } from 'ai';
import OpenAI from 'openai';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { byteTokenizer, END } from '../../../test/rollout/byte-tokenizer.js';
import { ScriptedEngine } from '../../../test/rollout/scripted-engine.js';
import { hermes } from '../../agents/tools/parsers/hermes.js';
import { type RunningServer, startServer, withCallHints } from './index.js';

/** A model that adds with a tool: calls it once per question, then says what the tool said. */
const adder = (prompt: string): string => {
  const turns = prompt.split('<|im_start|>');
  const asked = turns.at(-2) ?? '';
  const result = asked.match(/^tool\n(.*)<\|im_end\|>/s)?.[1];
  if (result) return `The sum is ${result}.`;
  const question = asked.match(/(\d+) and (\d+)/);
  if (!question || !prompt.includes('# Tools')) return 'Hello!';
  return `Adding.\n<tool_call>\n{"name": "add", "arguments": {"a": ${question[1]}, "b": ${question[2]}}}\n</tool_call>`;
};

let engine: ScriptedEngine;
let server: RunningServer;
let baseURL: string;

beforeAll(async () => {
  engine = new ScriptedEngine(adder);
  server = await startServer({
    model: 'tiny',
    engine,
    tokenizer: byteTokenizer,
    toolCallParser: withCallHints(hermes),
  });
  baseURL = `${server.url}/v1`;
});
afterAll(() => server.close({ deadlineMs: 0 }));
beforeEach(() => {
  engine.requests.length = 0;
});

const lastPrompt = () => byteTokenizer.decode(engine.requests.at(-1)!.promptIds);
const parameters = z.object({ a: z.number(), b: z.number() });
const question = 'Add 2 and 40, please.';

describe('openai', () => {
  const client = () => new OpenAI({ baseURL, apiKey: 'none', maxRetries: 0 });
  const tools = [
    {
      type: 'function' as const,
      function: { name: 'add', description: 'Adds', parameters: z.toJSONSchema(parameters) as Record<string, unknown> },
    },
  ];

  it('lists models', async () => {
    const models = await client().models.list();
    expect(models.data.map((model) => model.id)).toEqual(['tiny']);
  });

  it('chats, and hands vLLM’s token ids through', async () => {
    const answer = await client().chat.completions.create({
      model: 'tiny',
      messages: [{ role: 'user', content: 'Hi' }],
      logprobs: true,
      top_logprobs: 1,
      return_token_ids: true,
    } as OpenAI.ChatCompletionCreateParamsNonStreaming);
    expect(answer.choices[0]!.message.content).toBe('Hello!');
    expect(answer.choices[0]!.logprobs!.content).toHaveLength(7);
    expect(answer.choices[0]).toMatchObject({ token_ids: [...Buffer.from('Hello!'), END] });
    expect(answer).toHaveProperty('prompt_token_ids');
  });

  it('runs tools through its own loop, streaming and not', async () => {
    const run = (stream: boolean) => ({
      model: 'tiny',
      messages: [{ role: 'user' as const, content: question }],
      stream,
      tools: [
        {
          type: 'function' as const,
          function: {
            name: 'add',
            description: 'Adds',
            parameters: z.toJSONSchema(parameters) as object,
            parse: (text: string) => parameters.parse(JSON.parse(text)),
            function: ({ a, b }: z.infer<typeof parameters>) => String(a + b),
          },
        },
      ],
    });
    const plain = client().chat.completions.runTools({ ...run(false), stream: false } as never);
    expect(await plain.finalContent()).toBe('The sum is 42.');
    const streaming = client().chat.completions.runTools({ ...run(true), stream: true } as never);
    expect(await streaming.finalContent()).toBe('The sum is 42.');
    expect((await streaming.totalUsage()).completion_tokens).toBeGreaterThanOrEqual(0);
    expect(engine.requests).toHaveLength(4);
  });

  it('streams chunks that its accumulator accepts, with usage', async () => {
    const stream = client().chat.completions.stream({
      model: 'tiny',
      messages: [{ role: 'user', content: question }],
      tools,
      stream_options: { include_usage: true },
    });
    const final = await stream.finalChatCompletion();
    expect(final.choices[0]!.finish_reason).toBe('tool_calls');
    expect(final.choices[0]!.message.content).toBe('Adding.');
    expect(final.choices[0]!.message.tool_calls![0]).toMatchObject({
      function: { name: 'add', arguments: '{"a":2,"b":40}' },
    });
    expect(final.usage!.total_tokens).toBe(final.usage!.prompt_tokens + final.usage!.completion_tokens);
  });

  it('streams and completes text, from text and from token ids', async () => {
    const stream = await client().completions.create({ model: 'tiny', prompt: 'x', stream: true });
    let text = '';
    for await (const chunk of stream) text += chunk.choices[0]?.text ?? '';
    expect(text).toBe('Hello!');
    const fromIds = await client().completions.create({ model: 'tiny', prompt: [[120], [121]], n: 2, logprobs: 1 });
    expect(fromIds.choices).toHaveLength(4);
  });

  it('uses the responses endpoint, whole and streamed, with function calls', async () => {
    const responseTools = [
      {
        type: 'function' as const,
        name: 'add',
        parameters: z.toJSONSchema(parameters) as Record<string, unknown>,
        strict: false,
      },
    ];
    const first = await client().responses.create({
      model: 'tiny',
      input: question,
      instructions: 'Be exact.',
      tools: responseTools,
    });
    expect(first.status).toBe('completed');
    expect(first.output_text).toBe('Adding.');
    const call = first.output.find((item) => item.type === 'function_call')!;
    expect(call).toMatchObject({ name: 'add', arguments: '{"a":2,"b":40}' });
    expect(lastPrompt()).toContain('system\nBe exact.');

    const stream = client().responses.stream({
      model: 'tiny',
      tools: responseTools,
      input: [
        { role: 'user', content: question },
        ...(first.output as OpenAI.Responses.ResponseInputItem[]),
        { type: 'function_call_output', call_id: call.call_id, output: '42' },
      ],
    });
    const types: string[] = [];
    stream.on('event', (event) => types.push(event.type));
    const second = await stream.finalResponse();
    expect(second.output_text).toBe('The sum is 42.');
    expect(second.usage!.output_tokens).toBe('The sum is 42.'.length + 1);
    const distinct = [...new Set(types)];
    expect(distinct).toEqual([
      'response.created',
      'response.in_progress',
      'response.output_item.added',
      'response.content_part.added',
      'response.output_text.delta',
      'response.output_text.done',
      'response.content_part.done',
      'response.output_item.done',
      'response.completed',
    ]);
    // The text and the call of the first turn are one assistant message.
    expect(lastPrompt()).toContain('assistant\nAdding.[{"name":"add","arguments":{"a":2,"b":40}}]');
  });

  it('reports an answer that was cut off as incomplete', async () => {
    const cut = await client().responses.create({ model: 'tiny', input: 'Hi', max_output_tokens: 3 });
    expect(cut).toMatchObject({
      status: 'incomplete',
      incomplete_details: { reason: 'max_output_tokens' },
      output_text: 'Hel',
    });
  });

  it('throws its own error classes', async () => {
    const chat = (body: object) =>
      client().chat.completions.create({ model: 'tiny', messages: [{ role: 'user', content: 'Hi' }], ...body });
    await expect(chat({ model: 'gpt-4' })).rejects.toBeInstanceOf(OpenAI.NotFoundError);
    const overflow = await chat({ messages: [{ role: 'user', content: 'x'.repeat(9999) }] }).catch((error) => error);
    expect(overflow).toBeInstanceOf(OpenAI.BadRequestError);
    expect(overflow).toMatchObject({ status: 400, code: 'context_length_exceeded', param: 'messages' });
    await expect(chat({ temperature: 'hot' as never })).rejects.toMatchObject({ status: 400, param: 'temperature' });
    await expect(
      client().responses.create({ model: 'tiny', input: 'x', previous_response_id: 'resp_1' }),
    ).rejects.toMatchObject({
      status: 400,
      param: 'previous_response_id',
    });
  });
});

describe('AI SDK', () => {
  const models: [string, () => LanguageModel][] = [
    ['openai-compatible (chat)', () => createOpenAICompatible({ name: 'verlet', baseURL, includeUsage: true })('tiny')],
    ['openai (responses, its default)', () => createOpenAI({ baseURL, apiKey: 'none' })('tiny')],
    ['openai.chat', () => createOpenAI({ baseURL, apiKey: 'none' }).chat('tiny')],
  ];
  const settings = (model: LanguageModel) => ({
    model,
    prompt: question,
    tools: { add: tool({ inputSchema: parameters, execute: async ({ a, b }) => a + b }) },
    stopWhen: stepCountIs(5),
    maxRetries: 0,
  });

  it.each(models)('%s generates with tools', async (_, model) => {
    const result = await generateText(settings(model()));
    expect(result.text).toBe('The sum is 42.');
    expect(result.steps).toHaveLength(2);
    expect(result.steps[0]!.toolResults[0]).toMatchObject({ toolName: 'add', output: 42 });
    expect(result.finishReason).toBe('stop');
    expect(result.totalUsage.inputTokens).toBeGreaterThan(0);
    expect(lastPrompt()).toContain('{"name":"add","arguments":{"a":2,"b":40}}');
  });

  it.each(models)('%s streams with tools', async (_, model) => {
    const result = streamText(settings(model()));
    let text = '';
    for await (const delta of result.textStream) text += delta;
    expect(text).toBe('Adding.The sum is 42.');
    expect(await result.finishReason).toBe('stop');
    expect((await result.steps)[0]!.toolCalls[0]).toMatchObject({ toolName: 'add', input: { a: 2, b: 40 } });
    expect((await result.totalUsage).outputTokens).toBeGreaterThan(20);
  });

  it.each(models.slice(0, 2))('%s shows thinking apart, and goes on from it', async (_, model) => {
    engine.script = (prompt) =>
      prompt.includes('tool\n') ? adder(prompt) : `<think>\nI can add.\n</think>\n\n${adder(prompt)}`;
    try {
      const whole = await generateText(settings(model()));
      expect(whole.steps[0]!.reasoningText?.trim()).toBe('I can add.');
      expect([whole.steps[0]!.text, whole.text]).toEqual(['Adding.', 'The sum is 42.']);
      const streamed = streamText(settings(model()));
      const steps = await streamed.steps;
      expect(steps[0]!.reasoningText?.trim()).toBe('I can add.');
      expect(steps.map((step) => step.text)).toEqual(['Adding.', 'The sum is 42.']);
    } finally {
      engine.script = adder;
    }
  });

  it('learns from the error that the context is too small', async () => {
    const model = createOpenAICompatible({ name: 'verlet', baseURL })('tiny');
    await expect(generateText({ model, prompt: 'x'.repeat(9999), maxRetries: 0 })).rejects.toThrow(
      /maximum context length is 4096/,
    );
  });
});

describe('LangGraph', () => {
  const add = langchainTool(({ a, b }) => String(a + b), { name: 'add', description: 'Adds', schema: parameters });

  const llm = () => new ChatOpenAI({ model: 'tiny', apiKey: 'none', configuration: { baseURL }, maxRetries: 0 });

  it('runs a ReAct agent over two questions with its history intact', async () => {
    const agent = createReactAgent({ llm: llm(), tools: [add] });
    const first = await agent.invoke({ messages: [{ role: 'user', content: question }] });
    const second = await agent.invoke({ messages: [...first.messages, { role: 'user', content: 'And 5 and 6?' }] });
    const history = second.messages.map((message) => message.getType());
    expect(history).toEqual(['human', 'ai', 'tool', 'ai', 'human', 'ai', 'tool', 'ai']);
    expect(second.messages.at(-1)!.content).toBe('The sum is 11.');
    const ids = second.messages.filter((message) => message.getType() === 'ai').map((message) => message.id);
    expect(new Set(ids).size).toBe(4);
  });

  it('streams the same agent piece by piece', async () => {
    const agent = createReactAgent({ llm: llm(), tools: [add] });
    const pieces: string[] = [];
    const stream = await agent.stream({ messages: [{ role: 'user', content: question }] }, { streamMode: 'messages' });
    for await (const [message] of stream) {
      if (message.getType() === 'ai' && message.content) pieces.push(String(message.content));
    }
    expect(pieces.join('')).toBe('Adding.The sum is 42.');
    expect(pieces.length).toBeGreaterThan(2);
  });
});
