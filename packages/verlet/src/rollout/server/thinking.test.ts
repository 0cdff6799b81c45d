import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { events, ServerHarness } from '../../../test/rollout/server-harness.js';
import { splitReasoning } from '../../agents/tools/parsers/index.js';
import { ThinkingSplitter } from './thinking.js';

function split(pieces: string[], isOpen = false) {
  const splitter = new ThinkingSplitter(isOpen);
  const spoken = [...pieces.map((piece) => splitter.push(piece)), splitter.end()];
  return { reasoning: spoken.map((one) => one.reasoning).join(''), text: spoken.map((one) => one.text).join('') };
}

describe('thinking', () => {
  it.each([
    ['<think>\nhm\n</think>\n\nYes.', '\nhm', 'Yes.'],
    ['  <think>hm</think>Yes.', 'hm', 'Yes.'],
    ['<think></think>Yes.', '', 'Yes.'],
    ['<think>cut off in tho', 'cut off in tho', ''],
    ['<thin ice', '', '<thin ice'],
    ['Yes, <think> is a tag.', '', 'Yes, <think> is a tag.'],
    ['', '', ''],
  ])('parts %j', (text, reasoning, answer) => {
    expect(split([text])).toEqual({ reasoning, text: answer });
  });

  it('does not depend on how the text arrives, and agrees with what recorded rollouts see', () => {
    const word = fc.constantFrom('hm', '\n', ' ', '<', 'think', '/think>', 'a < b', '</', '>');
    const words = fc.array(word, { maxLength: 6 }).map((list) => list.join(''));
    fc.assert(
      fc.property(words, words, fc.array(fc.nat(12)), (thought, answer, cuts) => {
        fc.pre(!`${thought}${answer}`.includes('think>'));
        const whole = `<think>${thought}</think>${answer}`;
        const pieces: string[] = [];
        let rest = whole;
        for (const cut of cuts) {
          pieces.push(rest.slice(0, cut));
          rest = rest.slice(cut);
        }
        const arrived = split([...pieces, rest]);
        expect(arrived).toEqual(split([whole]));
        const recorded = splitReasoning(whole);
        expect({ reasoning: arrived.reasoning.trim(), answer: arrived.text }).toEqual(recorded);
      }),
    );
  });

  it('knows that a template has opened the thought', () => {
    expect(split(['hm', '</thi', 'nk>\n', '\nYes.'], true)).toEqual({ reasoning: 'hm', text: 'Yes.' });
  });
});

describe('a server whose model thinks', () => {
  const harness = new ServerHarness();
  const request = { model: 'tiny', messages: [{ role: 'user', content: 'Hi' }] };

  it('hands thinking over as reasoning_content, streamed and not', async () => {
    harness.engine.script = () => '<think>\nLet me see.\n</think>\n\nHello.';
    const whole = await harness.postJson('/v1/chat/completions', request);
    expect(whole.choices[0].message).toMatchObject({ content: 'Hello.', reasoning_content: '\nLet me see.' });
    const chunks = await events(await harness.post('/v1/chat/completions', { ...request, stream: true }));
    const deltas = chunks.slice(0, -1).map((chunk) => chunk.choices[0].delta);
    expect(deltas.map((delta) => delta.reasoning_content ?? '').join('')).toBe('\nLet me see.');
    expect(deltas.map((delta) => delta.content ?? '').join('')).toBe('Hello.');
  });

  it('takes a call that is only thought about for thinking', async () => {
    const call = '<tool_call>{"name": "add", "arguments": {}}</tool_call>';
    const tools = [{ type: 'function', function: { name: 'add' } }];
    for (const separateThinking of [true, false]) {
      await harness.restart({ separateThinking });
      harness.engine.script = () => `<think>Should I? ${call}</think>No.`;
      const thinking = await harness.postJson('/v1/chat/completions', { ...request, tools });
      expect(thinking.choices[0].finish_reason).toBe('stop');
      expect(thinking.choices[0].message.content).toBe(
        separateThinking ? 'No.' : `<think>Should I? ${call}</think>No.`,
      );
      harness.engine.script = () => `<think>Yes.</think>Now: ${call}`;
      const calling = await harness.postJson('/v1/chat/completions', { ...request, tools });
      expect(calling.choices[0].message).toMatchObject({
        content: separateThinking ? 'Now:' : '<think>Yes.</think>Now:',
        tool_calls: [{ function: { name: 'add' } }],
      });
    }
  });
});
