import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import vectors from '../../fixtures/vectors.json' with { type: 'json' };
import type { ToolSchema } from '../../types.js';
import { registerToolParser, splitReasoning, toolParser, toolParserNames } from './index.js';

interface ParserVector {
  area: string;
  name: string;
  input: { text: string; tools?: Record<string, Record<string, string>> };
  expected: { content: string; calls: { name: string; arguments: string; tool_call_id?: string }[] };
}

const parserVectors = (vectors as unknown as ParserVector[]).filter(({ area }) => area.startsWith('tool_parser/'));

function schemas(tools: Record<string, Record<string, string>> = {}): ToolSchema[] {
  return Object.entries(tools).map(([name, types]) => ({
    type: 'function',
    function: {
      name,
      parameters: {
        type: 'object',
        properties: Object.fromEntries(Object.entries(types).map(([key, type]) => [key, { type }])),
      },
    },
  }));
}

describe('reference vectors', () => {
  it.each(parserVectors.map((vector) => [`${vector.area} ${vector.name}`, vector] as const))(
    '%s',
    (_, { area, input, expected }) => {
      const turn = toolParser(area.replace('tool_parser/', '')).parse(input.text, schemas(input.tools));
      expect(turn.content).toBe(expected.content);
      expect(turn.calls.map(({ name, arguments: args }) => ({ name, args }))).toEqual(
        expected.calls.map((call) => ({ name: call.name, args: JSON.parse(call.arguments) })),
      );
      for (const [index, call] of expected.calls.entries()) {
        if (call.tool_call_id) expect(turn.calls[index]!.id).toBe(call.tool_call_id);
      }
    },
  );

  it('cover all formats that have one', () => {
    expect(new Set(parserVectors.map(({ area }) => area.replace('tool_parser/', ''))).size).toBe(9);
  });
});

describe('malformed calls', () => {
  it.each([
    ['hermes', '<tool_call>{"name": "f", "arguments": {</tool_call>', /not valid JSON/],
    ['hermes', '<tool_call>{"name": "f", "arguments": {}}', /<\/tool_call> is missing/],
    ['hermes', '<tool_call>{"arguments": {}}</tool_call>', /no "name"/],
    ['hermes', '<tool_call>{"name": "f", "arguments": [1]}</tool_call>', /"arguments" object/],
    ['qwen3_coder', '<tool_call>{"name": "f"}</tool_call>', /no <function/],
    ['llama3_json', '{"name": "f", "parameters": {"a": 1}', /not valid JSON/],
    ['llama3_json', '{"name": "f", "parameters": 3}', /"parameters" object/],
    ['gpt-oss', '<|channel|>commentary to=functions.f<|message|>{"a":<|call|>', /not valid JSON/],
    ['gpt-oss', '<|channel|>commentary to=functions.f<|message|>{}<|end|>', /instead of <\|call\|>/],
    ['kimi', '<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0', /no complete call/],
    ['minimax', '<minimax:tool_call><invoke name="f">', /no complete <invoke/],
  ])('%s: %s', (format, text, reason) => {
    const turn = toolParser(format).parse(text, []);
    expect(turn.calls).toEqual([]);
    expect(turn.malformed).toHaveLength(1);
    expect(turn.malformed[0]!.reason).toMatch(reason);
  });

  it('never throw, whatever the model writes', () => {
    const pieces = fc.constantFrom(
      '<tool_call>',
      '</tool_call>',
      '{"name":',
      '"f"',
      '}',
      '{',
      '<function=',
      '>',
      '<|message|>',
      'to=functions.x',
      '<|call|>',
      '<|tool_call_begin|>',
      '<arg_key>',
      ';',
      '"',
      '\\',
      'é',
    );
    const text = fc
      .array(fc.oneof(pieces, fc.string({ maxLength: 4 })), { maxLength: 12 })
      .map((parts) => parts.join(''));
    fc.assert(
      fc.property(fc.constantFrom(...toolParserNames()), text, (format, value) => {
        const { calls } = toolParser(format).parse(value, []);
        for (const call of calls) expect(typeof call.arguments).toBe('object');
      }),
    );
  });
});

describe('llama3_json', () => {
  const { parse } = toolParser('llama3_json');
  it('reads one or several calls and the python tag', () => {
    const turn = parse(
      '<|python_tag|>{"name": "f", "parameters": {"s": "a;{b}"}}; {"name": "g", "parameters": {}}',
      [],
    );
    expect(turn.calls.map(({ name, arguments: args }) => [name, args])).toEqual([
      ['f', { s: 'a;{b}' }],
      ['g', {}],
    ]);
  });
  it('leaves ordinary answers alone, JSON among them', () => {
    expect(parse('It is 3.', [])).toMatchObject({ content: 'It is 3.', calls: [], malformed: [] });
    expect(parse('{"answer": 3}', [])).toMatchObject({ content: '{"answer": 3}', calls: [], malformed: [] });
  });
});

it('qwen3_coder takes types from the schema and keeps text that does not fit', () => {
  const tools = schemas({ f: { n: 'integer', x: 'number', flag: 'boolean', s: 'string', o: 'object' } });
  const text =
    '<tool_call>\n<function=f>\n<parameter=n>\n7\n</parameter>\n<parameter=x>1.5</parameter><parameter=flag>True</parameter>' +
    '<parameter=s>12</parameter><parameter=o>{"k": [1]}</parameter><parameter=other>9</parameter>\n</function>\n</tool_call>';
  expect(toolParser('qwen3_coder').parse(text, tools).calls[0]!.arguments).toEqual({
    n: 7,
    x: 1.5,
    flag: true,
    s: '12',
    o: { k: [1] },
    other: '9',
  });
});

it('thinking is not calling', () => {
  expect(splitReasoning('<think>maybe <tool_call>{}</tool_call></think>\n\nHi')).toEqual({
    reasoning: 'maybe <tool_call>{}</tool_call>',
    answer: 'Hi',
  });
  expect(splitReasoning('opened in the prompt</think>Hi')).toEqual({ reasoning: 'opened in the prompt', answer: 'Hi' });
  expect(splitReasoning('<think>cut off')).toEqual({ reasoning: 'cut off', answer: '' });
});

it('parsers are known by name, and added once', () => {
  registerToolParser({ name: 'shout', parse: (text) => ({ content: text, calls: [], malformed: [] }) });
  expect(() =>
    registerToolParser({ name: 'shout', parse: (text) => ({ content: text, calls: [], malformed: [] }) }),
  ).toThrow(/already/);
  expect(() => toolParser('herms')).toThrow(/no tool parser named "herms"; there are: hermes/);
});
