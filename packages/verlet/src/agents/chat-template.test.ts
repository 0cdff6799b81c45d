import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import type { Tokenizer } from '../models/tokenizer/index.js';
import { IncrementalChatTemplate } from './chat-template.js';
import vectors from './fixtures/vectors.json' with { type: 'json' };
import { tinyTokenizer } from './testing/index.js';
import type { ChatMessage, ChatTokenizer, ToolSchema } from './types.js';

const LLAMA_TOKENS = [
  '<|begin_of_text|>',
  '<|end_of_text|>',
  '<|start_header_id|>',
  '<|end_header_id|>',
  '<|eot_id|>',
  '<|eom_id|>',
];
const templateOf = (family: string) =>
  readFileSync(new URL(`../models/tokenizer/fixtures/${family}-style.jinja`, import.meta.url), 'utf8');

const tools: ToolSchema[] = [
  {
    type: 'function',
    function: { name: 'weather', description: 'Tells it', parameters: { type: 'object', properties: {} } },
  },
];
const system: ChatMessage = { role: 'system', content: 'Be brief.' };
const question: ChatMessage = { role: 'user', content: 'What is the weather?' };

type Turn = { said: string; reply: ChatMessage[] };

/** Prompt, then for each turn the sampled tokens and the continuation: what a session would record. */
function incrementalIds(
  tokenizer: ChatTokenizer,
  prompt: ChatMessage[],
  turns: Turn[],
  endTokenId: number,
  options: { tools?: ToolSchema[]; kwargs?: Record<string, unknown> } = {},
) {
  const template = new IncrementalChatTemplate(tokenizer, prompt, options.tools, options.kwargs);
  const ids = template.promptIds();
  for (const { said, reply } of turns) {
    ids.push(...Array.from(tokenizer.encode(said)), endTokenId, ...template.continuationIds(reply, { closed: true }));
  }
  return ids;
}

function wholeIds(
  tokenizer: Tokenizer,
  prompt: ChatMessage[],
  turns: Turn[],
  options: { tools?: ToolSchema[]; kwargs?: Record<string, unknown> } = {},
) {
  const messages = turns.flatMap(({ said, reply }) => [{ role: 'assistant', content: said }, ...reply]);
  return Array.from(
    tokenizer.encodeChat([...prompt, ...messages], {
      addGenerationPrompt: true,
      tools: options.tools ?? null,
      kwargs: options.kwargs,
    }),
  );
}

describe.each(['qwen2.5', 'qwen3', 'llama-3.1'])('the %s layout', (family) => {
  let tokenizer: Tokenizer;
  let endTokenId: number;
  beforeAll(async () => {
    const llama = { specialTokens: LLAMA_TOKENS, endToken: '<|eot_id|>' };
    const made = await tinyTokenizer({ chatTemplate: templateOf(family), ...(family === 'llama-3.1' ? llama : {}) });
    tokenizer = made.tokenizer;
    endTokenId = made.endTokenId;
  });

  const call = '<tool_call>\n{"name": "weather", "arguments": {}}\n</tool_call>';
  const cases: [string, ChatMessage[], Turn[], boolean][] = [
    [
      'a user turn',
      [system, question],
      [{ said: 'Sunny.', reply: [{ role: 'user', content: 'And tomorrow?' }] }],
      false,
    ],
    ['no system message', [question], [{ said: 'Sunny.', reply: [{ role: 'user', content: 'Sure?' }] }], false],
    ['a tool turn', [system, question], [{ said: call, reply: [{ role: 'tool', content: 'sunny' }] }], true],
    [
      'two tool messages at once',
      [question],
      [
        {
          said: call,
          reply: [
            { role: 'tool', content: 'a' },
            { role: 'tool', content: 'b' },
          ],
        },
      ],
      true,
    ],
    [
      'tool, tool, user',
      [system, question],
      [
        { said: call, reply: [{ role: 'tool', content: 'sunny\n\n 25 °C' }] },
        { said: call, reply: [{ role: 'tool', content: '{"wind": 3}' }] },
        { said: 'Sunny and calm.', reply: [{ role: 'user', content: 'Thanks! 👋' }] },
      ],
      true,
    ],
  ];
  it.each(cases)('%s: turn by turn equals the whole', (_name, prompt, turns, withTools) => {
    const options = withTools ? { tools } : {};
    expect(incrementalIds(tokenizer, prompt, turns, endTokenId, options)).toEqual(
      wholeIds(tokenizer, prompt, turns, options),
    );
  });

  it('holds for any text of the other side', () => {
    const text = fc.string({ unit: 'grapheme', maxLength: 30 }).filter((value) => value.trim() === value);
    fc.assert(
      fc.property(
        fc.array(fc.record({ said: fc.constantFrom('Yes.', 'No, 12 of them.', 'Paris'), user: text }), {
          maxLength: 4,
        }),
        (rounds) => {
          const turns = rounds.map(({ said, user }) => ({ said, reply: [{ role: 'user', content: user }] }));
          expect(incrementalIds(tokenizer, [question], turns, endTokenId)).toEqual(
            wholeIds(tokenizer, [question], turns),
          );
        },
      ),
      { numRuns: 60 },
    );
  });

  it('closes a turn that was cut off before its end token', () => {
    const template = new IncrementalChatTemplate(tokenizer, [question]);
    const next = [{ role: 'user', content: 'Go on.' }];
    const open = template.continuationIds(next, { closed: false });
    expect(open).toEqual([endTokenId, ...template.continuationIds(next, { closed: true })]);
  });
});

describe('thinking', () => {
  let tokenizer: Tokenizer;
  let endTokenId: number;
  beforeAll(async () => {
    ({ tokenizer, endTokenId } = await tinyTokenizer({ chatTemplate: templateOf('qwen3') }));
  });
  const thought =
    '<think>\nI should look.\n</think>\n\n<tool_call>\n{"name": "weather", "arguments": {}}\n</tool_call>';

  it('is kept through tool turns, exactly as the template keeps it', () => {
    const turns = [
      { said: thought, reply: [{ role: 'tool', content: 'sunny' }] },
      { said: thought, reply: [{ role: 'tool', content: 'still sunny' }] },
    ];
    expect(incrementalIds(tokenizer, [system, question], turns, endTokenId, { tools })).toEqual(
      wholeIds(tokenizer, [system, question], turns, { tools }),
    );
  });

  it('stays in the context when a user message makes the template drop it from the history', () => {
    const turns = [{ said: '<think>\nhm\n</think>\n\nSunny.', reply: [{ role: 'user', content: 'Sure?' }] }];
    const ids = incrementalIds(tokenizer, [question], turns, endTokenId);
    expect(tokenizer.decode(ids)).toContain(
      '<think>\nhm\n</think>\n\nSunny.<|im_end|>\n<|im_start|>user\nSure?<|im_end|>\n<|im_start|>assistant\n',
    );
    expect(tokenizer.decode(wholeIds(tokenizer, [question], turns))).not.toContain('hm');
  });

  it('can be switched off: the empty thought comes with every generation prompt', () => {
    const kwargs = { enable_thinking: false };
    const template = new IncrementalChatTemplate(tokenizer, [question], [], kwargs);
    const scaffold = '<|im_start|>assistant\n<think>\n\n</think>\n\n';
    expect(tokenizer.decode(template.promptIds()).endsWith(scaffold)).toBe(true);
    expect(tokenizer.decode(template.continuationIds([{ role: 'user', content: 'x' }], { closed: true }))).toBe(
      `\n<|im_start|>user\nx<|im_end|>\n${scaffold}`,
    );
  });
});

describe('the turn separator', () => {
  it('is restored between an end token and the next turn (reference vector)', () => {
    const vector = vectors.find(({ area }) => area === 'tokenization')!;
    const { specials, vocab, messages } = vector.input as unknown as {
      specials: Record<string, number>;
      vocab: Record<string, number>;
      messages: [string, string][];
    };
    const expected = vector.expected as unknown as { full_template: number[] };
    const words = new Map(Object.entries({ ...specials, ...vocab }));
    const tokenizer: ChatTokenizer = {
      encode: (text) =>
        [...text.matchAll(/<\|im_start\|>|<\|im_end\|>|\n|\w+/g)].map(([word]) => words.get(word) ?? 999),
      decode: (ids, options) =>
        Array.from(ids)
          .filter((id) => !options?.skipSpecialTokens || id > 2)
          .map((id) => `#${id}`)
          .join(' '),
      applyChatTemplate: (conversation, { addGenerationPrompt }) =>
        conversation.map(({ role, content }) => `<|im_start|>${role}\n${content}<|im_end|>\n`).join('') +
        (addGenerationPrompt ? '<|im_start|>assistant\n' : ''),
    };
    const [user, assistant, tool] = messages.map(([role, content]) => ({ role, content }));
    expect(incrementalIds(tokenizer, [user!], [{ said: assistant!.content, reply: [tool!] }], 2)).toEqual(
      expected.full_template,
    );
  });

  it('is not taken away from templates that close no turn', () => {
    const tokenizer: ChatTokenizer = {
      encode: (text) => Array.from(text, (character) => character.codePointAt(0)!),
      decode: (ids, options) =>
        Array.from(ids)
          .filter((id) => !options?.skipSpecialTokens || id !== 0)
          .map((id) => String.fromCodePoint(id))
          .join(''),
      applyChatTemplate: (conversation, { addGenerationPrompt }) =>
        conversation.map(({ role, content }) => `${role}: ${content}\n`).join('') +
        (addGenerationPrompt ? 'assistant: ' : ''),
    };
    const template = new IncrementalChatTemplate(tokenizer, [question]);
    const ids = template.continuationIds([{ role: 'user', content: 'x' }], { closed: true });
    expect(tokenizer.decode(ids)).toBe('\nuser: x\nassistant: ');
  });
});

describe('the stand-in for long prompts', () => {
  const conversation = (
    separator: (messages: readonly ChatMessage[]) => string,
  ): { tokenizer: ChatTokenizer; rendered: () => number } => {
    let rendered = 0;
    const tokenizer: ChatTokenizer = {
      encode: (text) => Array.from(text, (character) => character.codePointAt(0)!),
      decode: (ids) => Array.from(ids, (id) => String.fromCodePoint(id)).join(''),
      applyChatTemplate: (messages) => {
        if (messages[0]!.content === question.content) rendered++;
        return messages.map(({ role, content }) => `${role}: ${content}${separator(messages)}`).join('');
      },
    };
    return { tokenizer, rendered: () => rendered };
  };
  const next = (content: string) => [{ role: 'user', content }];

  it('spares rendering the prompt again once it has given the same text', () => {
    const { tokenizer, rendered } = conversation(() => '\n');
    const template = new IncrementalChatTemplate(tokenizer, [question]);
    const texts = ['a', 'b', 'c'].map((content) =>
      tokenizer.decode(template.continuationIds(next(content), { closed: false })),
    );
    expect(texts).toEqual(['\nuser: a\n', '\nuser: b\n', '\nuser: c\n']);
    expect(rendered()).toBe(1);
  });

  it('is never used where the template looks at what was said before', () => {
    const { tokenizer, rendered } = conversation((messages) => `[${messages[0]!.content}]`);
    const template = new IncrementalChatTemplate(tokenizer, [question]);
    const texts = ['a', 'b'].map((content) =>
      tokenizer.decode(template.continuationIds(next(content), { closed: false })),
    );
    expect(texts[1]).toBe('[What is the weather?]user: b[What is the weather?]');
    expect(rendered()).toBe(2);
  });
});

/** The templates that models are published with, from an installed TRL, which ships copies of them. */
const published = publishedTemplates();
const skipped = published.why ? ` (skipped: ${published.why})` : '';

describe.skipIf(published.why)(`published templates${skipped}`, () => {
  const call = '<tool_call>\n{"name": "weather", "arguments": {}}\n</tool_call>';
  const toolTurns: Turn[] = [
    { said: call, reply: [{ role: 'tool', content: 'sunny\n\n 25 °C' }] },
    { said: call, reply: [{ role: 'tool', content: '{"wind": 3}' }] },
  ];
  const userTurns: Turn[] = [
    { said: 'Sunny.', reply: [{ role: 'user', content: 'And tomorrow?' }] },
    { said: 'Rain.', reply: [{ role: 'user', content: 'Thanks! 👋' }] },
  ];
  const llama = { specialTokens: LLAMA_TOKENS, endToken: '<|eot_id|>' };

  describe.each([
    ['qwen2_5', {}, true],
    ['qwen3', {}, true],
    ['qwen3_instruct_2507', {}, true],
    ['llama3', llama, false],
    ['llama3_1', llama, true],
    ['llama3_2', llama, true],
  ] as const)('%s', (name, options, hasTools) => {
    let made: Awaited<ReturnType<typeof tinyTokenizer>>;
    beforeAll(async () => {
      // Llama's tokenizers have this token; the tiny one is told.
      const bos = name === 'llama3' ? "{% set bos_token = '<|begin_of_text|>' %}" : '';
      made = await tinyTokenizer({ chatTemplate: bos + published.read(name), ...options });
    });

    const cases: [string, Turn[], boolean][] = [['user turns', userTurns, false]];
    if (hasTools)
      cases.push(['tool turns', toolTurns, true], ['tool and user turns', [...toolTurns, ...userTurns], true]);
    it.each(cases)('%s: turn by turn equals the whole', (_, turns, withTools) => {
      for (const prompt of [[question], [system, question]])
        for (const offered of withTools ? [{ tools }] : [{}, ...(hasTools ? [{ tools }] : [])])
          expect(incrementalIds(made.tokenizer, prompt, turns, made.endTokenId, offered)).toEqual(
            wholeIds(made.tokenizer, prompt, turns, offered),
          );
    });
  });

  it('qwen3 thinks: kept through tool turns; off, the empty thought comes with every generation prompt', async () => {
    const { tokenizer, endTokenId } = await tinyTokenizer({ chatTemplate: published.read('qwen3') });
    const turns = toolTurns.map(({ said, reply }) => ({ said: `<think>\nI look.\n</think>\n\n${said}`, reply }));
    expect(incrementalIds(tokenizer, [question], turns, endTokenId, { tools })).toEqual(
      wholeIds(tokenizer, [question], turns, { tools }),
    );
    const kwargs = { enable_thinking: false };
    const template = new IncrementalChatTemplate(tokenizer, [question], tools, kwargs);
    const scaffold = '<|im_start|>assistant\n<think>\n\n</think>\n\n';
    expect(tokenizer.decode(template.promptIds()).endsWith(scaffold)).toBe(true);
    const next = template.continuationIds([{ role: 'tool', content: 'sunny' }], { closed: true });
    expect(tokenizer.decode(next).endsWith(scaffold)).toBe(true);
  });
});

function publishedTemplates(): { why?: string; read: (name: string) => string } {
  const python = process.env.VERLET_PYTHON ?? 'python3';
  const script = 'import importlib.util as u; s = u.find_spec("trl"); print(s.origin if s else "")';
  const { stdout } = spawnSync(python, ['-c', script], { encoding: 'utf8', timeout: 20_000 });
  const folder = stdout?.trim() ? path.join(path.dirname(stdout.trim()), 'chat_templates') : '';
  const why = existsSync(folder) ? undefined : `${python} has no TRL with chat templates; set VERLET_PYTHON`;
  return { why, read: (name) => readFileSync(path.join(folder, `${name}.jinja`), 'utf8') };
}
