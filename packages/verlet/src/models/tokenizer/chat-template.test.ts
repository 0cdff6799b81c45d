import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { ChatTemplate } from './chat-template.js';

interface Fixture {
  template: string;
  name: string;
  messages: unknown[];
  tools: unknown[] | null;
  add_generation_prompt: boolean;
  kwargs: Record<string, unknown>;
  expected: string;
}

const read = (name: string) => readFileSync(new URL(`./fixtures/${name}`, import.meta.url), 'utf8');
const { fixtures, now } = JSON.parse(read('chat.json')) as { fixtures: Fixture[]; now: string };

describe.each(['qwen2.5-style', 'qwen3-style', 'llama-3.1-style', 'printing'])('%s', (style) => {
  const template = new ChatTemplate(read(`${style}.jinja`));
  it.each(fixtures.filter((fixture) => fixture.template === style))('$name renders as in transformers', (fixture) => {
    const rendered = template.render(
      {
        messages: fixture.messages,
        tools: fixture.tools,
        documents: null,
        add_generation_prompt: fixture.add_generation_prompt,
        bos_token: '<|begin_of_text|>',
        eos_token: '<|im_end|>',
        ...fixture.kwargs,
      },
      new Date(now),
    );
    expect(rendered).toBe(fixture.expected);
  });
});

describe('ChatTemplate', () => {
  it('passes on what a template raises', () => {
    const template = new ChatTemplate('{{ raise_exception("roles must alternate") }}');
    expect(() => template.render({ messages: [] })).toThrow('refused the conversation: roles must alternate');
  });

  it('names a syntax error as one of the template', () => {
    expect(() => new ChatTemplate('{% if x %}')).toThrow('cannot parse the chat template');
  });
});
