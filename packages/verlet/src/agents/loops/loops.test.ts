import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import type { Tokenizer } from '../../models/tokenizer/index.js';
import type { GenerationRequest } from '../../rollout/types.js';
import {
  type AgentConfigInput,
  type AgentRow,
  calculateTool,
  defineTool,
  registerAgentLoop,
  runAgents,
  type Tool,
  type Trajectory,
} from '../index.js';
import { type Script, ScriptedEngine, tinyTokenizer } from '../testing/index.js';

let tokenizer: Tokenizer;
let endTokenId: number;
beforeAll(async () => {
  ({ tokenizer, endTokenId } = await tinyTokenizer());
});

const question: AgentRow = {
  prompt: [{ role: 'user', content: 'What is 1 + 2?' }],
  data_source: 'sums',
  reward_model: { ground_truth: '3' },
};
const config: AgentConfigInput = { responseLength: 4000, maxPromptLength: 4000, maxToolResponseLength: 1000 };

const add: Tool = defineTool({
  name: 'add',
  description: 'Adds',
  input: z.object({ a: z.number(), b: z.number() }),
  execute: ({ a, b }) => ({ text: String(a + b), reward: 0.25 }),
});

async function play(
  script: Script,
  row: Partial<AgentRow>,
  options: { config?: AgentConfigInput; tools?: Tool[] } = {},
) {
  const engine = new ScriptedEngine({ tokenizer, endTokenId, script });
  const { trajectories, metrics } = await runAgents([{ ...question, ...row }], {
    engine,
    tokenizer,
    config: { ...config, ...options.config },
    tools: options.tools ?? [add],
  });
  const trajectory = trajectories[0]!;
  expectHonest(trajectory, engine.requests);
  return { trajectory, metrics, engine };
}

/** What must hold of every trajectory: its tokens are what the engine was shown and what it answered, each masked by who made it. */
function expectHonest(trajectory: Trajectory, requests: readonly GenerationRequest[]): void {
  const whole = [...trajectory.promptIds, ...trajectory.responseIds];
  const sampled = trajectory.segments.filter(({ kind }) => kind === 'sampled');
  expect(sampled).toHaveLength(requests.length);
  let index = 0;
  let seen = 0;
  for (const segment of trajectory.segments) {
    if (segment.kind === 'sampled') {
      expect(whole.slice(0, trajectory.promptIds.length + index)).toEqual(Array.from(requests[seen++]!.promptIds));
    }
    for (const [offset, id] of segment.tokenIds.entries()) {
      expect(trajectory.responseIds[index]).toBe(id);
      expect(trajectory.responseMask[index]).toBe(segment.kind === 'sampled' ? 1 : 0);
      expect(trajectory.rolloutLogProbs[index]).toBe(segment.kind === 'sampled' ? -(offset + 1) / 100 : 0);
      expect(trajectory.weightVersions[index]).toBe(segment.kind === 'sampled' ? 0 : -1);
      index++;
    }
  }
  expect(index).toBe(trajectory.responseIds.length);
}

/** The response as text, what the model wrote in plain and what it was given in «». */
function story({ segments }: Trajectory): string {
  return segments
    .map(({ kind, tokenIds }) => (kind === 'sampled' ? tokenizer.decode(tokenIds) : `«${tokenizer.decode(tokenIds)}»`))
    .join('');
}

const call = (name: string, args: unknown) => `<tool_call>\n${JSON.stringify({ name, arguments: args })}\n</tool_call>`;

describe('single_turn_agent', () => {
  it('records prompt, answer and end token', async () => {
    const { trajectory } = await play(() => 'It is 3.', {});
    expect(tokenizer.decode(trajectory.promptIds)).toContain(
      '<|im_start|>user\nWhat is 1 + 2?<|im_end|>\n<|im_start|>assistant\n',
    );
    expect(story(trajectory)).toBe('It is 3.<|im_end|>');
    expect(trajectory).toMatchObject({
      endReason: 'stop',
      numTurns: 2,
      agentName: 'single_turn_agent',
      dataSource: 'sums',
    });
  });

  it('says when the length ended it', async () => {
    const { trajectory } = await play(() => 'one two three four five six', {}, { config: { responseLength: 3 } });
    expect(trajectory.responseIds).toHaveLength(3);
    expect(trajectory.endReason).toBe('response_length');
  });

  it('refuses a prompt that is too long before anything is sampled', async () => {
    const { trajectory, engine } = await play(() => 'x', {}, { config: { maxPromptLength: 5 } });
    expect(trajectory).toMatchObject({ endReason: 'prompt_length', responseIds: [] });
    expect(engine.requests).toHaveLength(0);
  });
});

describe('tool_agent', () => {
  const script: Script = (prompt) => (prompt.includes('<tool_response>') ? 'It is 3.' : call('add', { a: 1, b: 2 }));

  it('masks the tool turn token by token', async () => {
    const { trajectory } = await play(script, { agent_name: 'tool_agent' });
    expect(story(trajectory)).toBe(
      `${call('add', { a: 1, b: 2 })}<|im_end|>«\n<|im_start|>user\n<tool_response>\n3\n</tool_response><|im_end|>\n<|im_start|>assistant\n»It is 3.<|im_end|>`,
    );
    expect(trajectory).toMatchObject({ endReason: 'stop', assistantTurns: 2, userTurns: 1, numTurns: 4 });
    expect(trajectory.toolCalls).toMatchObject([
      { name: 'add', arguments: { a: 1, b: 2 }, status: 'ok', response: '3', reward: 0.25, turn: 1 },
    ]);
  });

  it('puts a tool reward on the last token of the turn that called it', async () => {
    const { trajectory } = await play(script, { agent_name: 'tool_agent' });
    const endOfFirstTurn = trajectory.segments[0]!.tokenIds.length - 1;
    expect(trajectory.turnRewards).toEqual([{ channel: 'tool/add', turn: 1, value: 0.25, tokenIndex: endOfFirstTurn }]);
  });

  it('tells the model about calls it cannot read, does not know, or got wrong, and goes on', async () => {
    const turns = ['<tool_call>{"name": </tool_call>', call('subtract', {}), call('add', { a: 'one' }), 'Enough.'];
    const { trajectory } = await play(() => turns.shift()!, { agent_name: 'tool_agent' });
    expect(trajectory.toolCalls.map(({ status }) => status)).toEqual([
      'malformed',
      'unknown_tool',
      'invalid_arguments',
    ]);
    expect(story(trajectory)).toContain('no tool named "subtract"; the tools are: add');
    expect(trajectory.toolCalls[2]!.response).toMatch(/invalid arguments for add: a: .*number.*; b:/);
    expect(trajectory.endReason).toBe('stop');
  });

  it('runs as many calls per turn as allowed and answers the others too', async () => {
    const turns = [call('add', { a: 1, b: 1 }) + call('add', { a: 2, b: 2 }) + call('add', { a: 3, b: 3 }), 'done'];
    const { trajectory } = await play(
      () => turns.shift()!,
      { agent_name: 'tool_agent' },
      { config: { maxParallelCalls: 2 } },
    );
    expect(trajectory.toolCalls.map(({ status }) => status)).toEqual(['ok', 'ok', 'ignored']);
    expect(trajectory.messages.filter(({ role }) => role === 'tool')).toHaveLength(3);
    expect(trajectory.userTurns).toBe(1);
  });

  it.each([
    [{ maxAssistantTurns: 2 }, 'max_assistant_turns', { assistantTurns: 2, userTurns: 1 }],
    [{ maxUserTurns: 1 }, 'max_user_turns', { assistantTurns: 2, userTurns: 1 }],
    [{ maxToolCalls: 2 }, 'max_tool_calls', { assistantTurns: 3, userTurns: 2 }],
  ] as const)('ends by %o', async (limit, reason, turns) => {
    const { trajectory } = await play(
      () => call('add', { a: 1, b: 2 }),
      { agent_name: 'tool_agent' },
      { config: limit },
    );
    expect(trajectory).toMatchObject({ endReason: reason, ...turns });
    expect(trajectory.responseMask.at(-1)).toBe(1);
  });

  it('does not append an observation that does not fit', async () => {
    const said = call('add', { a: 1, b: 2 });
    const responseLength = tokenizer.encode(said).length + 1 + 10;
    const { trajectory } = await play(() => said, { agent_name: 'tool_agent' }, { config: { responseLength } });
    expect(trajectory).toMatchObject({ endReason: 'observation_overflow', userTurns: 0 });
    expect(story(trajectory)).toBe(`${said}<|im_end|>`);
  });

  it('a final answer within the last turn is an ordinary end', async () => {
    const { trajectory } = await play(
      script,
      { agent_name: 'tool_agent' },
      { config: { maxAssistantTurns: 2, maxUserTurns: 1 } },
    );
    expect(trajectory.endReason).toBe('stop');
  });
});

describe('react_agent', () => {
  it('acts, observes and answers in one assistant turn of text', async () => {
    const script: Script = (prompt) =>
      prompt.includes('Observation: 3')
        ? ' Now I know.\nFinal Answer: 3'
        : 'Thought: add them\nAction: add\nAction Input: {"a": 1, "b": 2}\nObservation: 99';
    const { trajectory } = await play(script, { agent_name: 'react_agent' });
    expect(tokenizer.decode(trajectory.promptIds)).toContain('- add: Adds');
    expect(story(trajectory)).toMatch(
      /^Thought: add them\nAction: add\nAction Input: \{"a": 1, "b": 2\}\nObservation:« 3\nThought:» Now I know\.\nFinal Answer: 3<\|im_end\|>$/,
    );
    expect(trajectory).toMatchObject({ endReason: 'answer', extraFields: { final_answer: '3' } });
  });

  it('corrects a broken action', async () => {
    const turns = ['Action: add\nObservation:', 'Action: add\nAction Input: [1]\nObservation:', 'Final Answer: none'];
    const { trajectory } = await play(() => turns.shift()!, { agent_name: 'react_agent' });
    expect(trajectory.toolCalls.map(({ status }) => status)).toEqual(['malformed', 'malformed']);
    expect(trajectory.endReason).toBe('answer');
  });
});

describe('interaction_agent', () => {
  const row = {
    agent_name: 'interaction_agent',
    interaction_kwargs: { name: 'gsm8k', ground_truth: 'The correct answer is 3.' },
  };

  it('gives feedback until the answer is right, and scores every turn', async () => {
    const turns = ['#### 4', 'It must be 3.', '#### 3'];
    const { trajectory } = await play(() => turns.shift()!, row);
    expect(story(trajectory)).toContain('«\n<|im_start|>user\nYour response is incorrect!');
    expect(story(trajectory)).toContain('The number is right, but');
    expect(trajectory).toMatchObject({ endReason: 'interaction_terminated', assistantTurns: 3, userTurns: 2 });
    expect(trajectory.turnRewards.map(({ channel, value }) => [channel, value])).toEqual([
      ['interaction/gsm8k', 0],
      ['interaction/gsm8k', 0],
      ['interaction/gsm8k', 1],
    ]);
    expect(trajectory.turnRewards[2]!.tokenIndex).toBe(trajectory.responseIds.length - 1);
  });

  it('ends with an error that names what the row lacks', async () => {
    const { trajectory } = await play(() => 'x', { agent_name: 'interaction_agent' });
    expect(trajectory).toMatchObject({ endReason: 'error', error: expect.stringContaining('interaction_kwargs.name') });
  });
});

describe('math_expression', () => {
  it('is a loop of one’s own: uses the tool and scores itself', async () => {
    const script: Script = (prompt) =>
      prompt.includes('<tool_response>\n4') ? 'The value is 4' : call('calculate', { a: 2, b: 1, operand: '@' });
    const row = { agent_name: 'math_expression', reward_model: { ground_truth: 4 } };
    const { trajectory } = await play(script, row, { tools: [calculateTool] });
    expect(trajectory).toMatchObject({ rewards: { exact_match: 1 }, rewardScore: 1, endReason: 'stop' });
  });
});

it('a loop can be added under a name of its own, once', async () => {
  registerAgentLoop('twice', async (session) => {
    await session.generate();
    session.append([{ role: 'user', content: 'Again.' }]);
    await session.generate();
  });
  expect(() => registerAgentLoop('twice', async () => {})).toThrow(/already registered/);
  const { trajectory } = await play(() => 'Yes.', { agent_name: 'twice' });
  expect(story(trajectory)).toBe(
    'Yes.<|im_end|>«\n<|im_start|>user\nAgain.<|im_end|>\n<|im_start|>assistant\n»Yes.<|im_end|>',
  );
  await expect(play(() => 'x', { agent_name: 'thrice' })).rejects.toThrow(
    /no agent loop named "thrice"; there are: single_turn_agent/,
  );
});
