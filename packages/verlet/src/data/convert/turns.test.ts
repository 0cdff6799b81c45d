import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { openTable, type Row, writeParquet } from '../table/index.js';
import { type ConvertReport, convertConversations, samplesOf } from './index.js';

const folder = mkdtempSync(join(tmpdir(), 'verlet-convert-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const where = { file: 'f.json', row: 0 };
const convert = (row: Row, options = {}) => samplesOf(row, where, { conversation: 0, firstIndex: 0 }, options);
const turn = (from: string, value: string) => ({ from, value });

describe('converting conversations', () => {
  it('makes one row per assistant turn, with the history before it', () => {
    const { samples } = convert({
      system: '你是一个故事生成AI',
      conversations: [turn('user', 'u1'), turn('assistant', 'a1'), turn('user', 'u2'), turn('assistant', 'a2')],
    });
    const [first, second] = samples;
    expect(samples).toHaveLength(2);
    expect(first?.prompt).toEqual([
      { role: 'system', content: '你是一个故事生成AI' },
      { role: 'user', content: 'u1' },
    ]);
    expect(second).toEqual({
      data_source: 'conversation',
      prompt: [
        { role: 'system', content: '你是一个故事生成AI' },
        { role: 'user', content: 'u1' },
        { role: 'assistant', content: 'a1' },
        { role: 'user', content: 'u2' },
      ],
      ability: 'chat',
      reward_model: { style: 'rule', ground_truth: 'a2' },
      target_response: 'a2',
      extra_info: { split: 'train', index: 1, conversation: 0, turn: 1, num_turns: 2 },
      system_prompt: '你是一个故事生成AI',
      conversation_history: [
        { role: 'user', content: 'u1' },
        { role: 'assistant', content: 'a1' },
      ],
      story_content: '',
      user_input: 'u2',
      output_format: '',
    });
  });

  it('takes story and output format out of the system text', () => {
    const conversations = [turn('user', 'u'), turn('assistant', 'a')];
    const system = 'Write.\n# Story\nOnce.\n# Format\nJSON';
    const marked = convert({ system, conversations }, { storyMarker: '# Story', outputFormatMarker: '# Format' })
      .samples[0];
    expect([marked?.story_content, marked?.output_format]).toEqual(['# Story\nOnce.\n', '# Format\nJSON']);
    const parts = convert({ instruction: 'I', story_content: 'S', output_format: 'F', conversations }).samples[0];
    expect([parts?.system_prompt, parts?.story_content, parts?.output_format]).toEqual(['ISF', 'S', 'F']);
  });

  it('reads ShareGPT and OpenAI messages', () => {
    const share = convert({
      conversations: [
        turn('gpt', 'Welcome'),
        turn('human', 'weather?'),
        turn('function_call', '{"name": "weather", "arguments": {"city": "Oslo"}}'),
        turn('observation', '3 degrees'),
        turn('gpt', 'Cold.'),
      ],
    });
    expect(share.unprompted).toBe(1);
    expect(share.samples.map((sample) => sample.target_response)).toEqual([
      '<tool_call>\n{"name": "weather", "arguments": {"city":"Oslo"}}\n</tool_call>',
      'Cold.',
    ]);
    expect(share.samples[1]?.prompt.map((message) => message.role)).toEqual(['assistant', 'user', 'assistant', 'tool']);
    const openai = convert({
      messages: [
        { role: 'system', content: 'S', name: null },
        { role: 'user', content: 'U' },
        { role: 'assistant', content: 'A' },
      ],
      tools: [{ type: 'function', function: { name: 'f' } }],
    }).samples[0];
    expect(openai?.system_prompt).toBe('S');
    expect(openai?.prompt[0]).toEqual({ role: 'system', content: 'S' });
    expect(openai?.tools).toBe('[{"type":"function","function":{"name":"f"}}]');
  });

  it.each([
    [{ conversations: [] }, 'column "conversations": the conversation is empty'],
    [{ text: 'x' }, 'no list "conversations" or "messages"; the fields are text'],
    [{ conversations: [turn('alien', 'x')] }, 'column "conversations[0]": the speaker a string "alien" is unknown'],
    [{ conversations: [turn('user', 'x')] }, 'nobody answers'],
    [{ messages: [{ role: 'user' }] }, 'column "messages[0]": a turn needs text, got nothing'],
    [{ conversations: [turn('gpt', 'x')] }, 'no assistant turn answers a user'],
  ])('refuses %j', (row, message) => {
    expect(() => convert(row as Row)).toThrow(`f.json, row 0`);
    expect(() => convert(row as Row)).toThrow(message);
  });

  it('converts a file, and counts what it leaves out only when allowed to', async () => {
    const path = join(folder, 'in.json');
    const good = { system: 's', conversations: [turn('user', 'u'), turn('assistant', 'a')] };
    writeFileSync(path, JSON.stringify([good, { conversations: [] }, good]));
    const table = await openTable(path);
    const report = (): ConvertReport => ({ conversations: 0, samples: 0, unprompted: 0, skipped: [] });
    const output = join(folder, 'out.parquet');
    await expect(writeParquet(output, convertConversations(table, report()))).rejects.toThrow(`${path}, row 1`);
    const counted = report();
    await writeParquet(output, convertConversations(table, counted, { skipBad: true }));
    expect([counted.conversations, counted.samples, counted.skipped.length]).toEqual([2, 2, 1]);
    const converted = await openTable(output);
    expect(await converted.row(1)).toMatchObject({ target_response: 'a', extra_info: { index: 1, conversation: 2 } });
    expect(converted.columns).toEqual([
      'data_source',
      'prompt',
      'ability',
      'reward_model',
      'target_response',
      'extra_info',
      'system_prompt',
      'conversation_history',
      'story_content',
      'user_input',
      'output_format',
    ]);
    await Promise.all([table.close(), converted.close()]);
  });
});
