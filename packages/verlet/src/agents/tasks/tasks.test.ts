import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Tokenizer } from '../../models/tokenizer/index.js';
import { type AgentRow, registerTask, runAgents } from '../index.js';
import { type Script, ScriptedEngine, tinyTokenizer } from '../testing/index.js';

let tokenizer: Tokenizer;
let endTokenId: number;
beforeAll(async () => {
  ({ tokenizer, endTokenId } = await tinyTokenizer());
});

async function play(script: Script, rows: Partial<AgentRow>[], config = {}) {
  const engine = new ScriptedEngine({ tokenizer, endTokenId, script });
  const whole = rows.map((row) => ({ prompt: [{ role: 'user', content: 'Go.' }], agent_name: 'task_agent', ...row }));
  return await runAgents(whole, {
    engine,
    tokenizer,
    config: { responseLength: 4000, maxPromptLength: 4000, toolTimeoutSeconds: 5, ...config },
  });
}

/** A repository with one file and one test, behind the HTTP contract: the model writes the file, the environment runs the test. */
const sessions = new Map<string, { file: string; steps: number }>();
const ended: string[] = [];
const environment: Record<string, (body: Record<string, unknown>) => unknown> = {
  '/start': ({ task, row }) => {
    const sid = String(sessions.size);
    sessions.set(sid, { file: '', steps: 0 });
    const { instance } = (row as { extra_info: { instance: string } }).extra_info;
    return { sid, messages: [{ role: 'user', content: `${task}: make ${instance} return 4` }] };
  },
  '/observe': ({ sid, content, messages }) => {
    const session = sessions.get(String(sid))!;
    session.steps++;
    session.file = String(content);
    if (messages) return { content: `You said ${(messages as unknown[]).length} messages.`, done: session.steps === 2 };
    const passed = session.file.includes('return 4');
    return passed ? { done: true, reward: 1 } : { content: 'expected 4', reward: -0.1, metrics: { failed_tests: 1 } };
  },
  '/end': ({ sid }) => {
    ended.push(String(sid));
    return {
      reward: { resolved: sessions.get(String(sid))!.file.includes('return 4') ? 1 : 0 },
      metrics: { steps: sessions.get(String(sid))!.steps },
    };
  },
};

let server: Server;
let url: string;
beforeAll(async () => {
  server = createServer(async (request, response) => {
    let body = '';
    for await (const chunk of request) body += chunk;
    response.end(JSON.stringify(environment[request.url!]!(JSON.parse(body))));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
});

describe('swedev', () => {
  it('starts, observes and ends in an environment behind HTTP', async () => {
    const { trajectories, metrics } = await play(
      (prompt) => (prompt.includes('expected 4') ? 'def f(): return 4' : 'def f(): return 3'),
      [{ task_type: 'swedev', data_source: 'repairs', extra_info: { instance: 'f', environment_url: url } }],
    );
    const [trajectory] = trajectories;
    expect(tokenizer.decode(trajectory!.promptIds)).toContain('swedev: make f return 4');
    expect(trajectory).toMatchObject({ endReason: 'environment_done', assistantTurns: 2, rewards: { resolved: 1 } });
    expect(trajectory!.turnRewards.map(({ value }) => value)).toEqual([-0.1, 1]);
    expect(metrics).toMatchObject({
      'agent/task_agent/swedev/steps': 2,
      'agent/task_agent/swedev/failed_tests': 1,
      'reward_channel/repairs/trajectory/resolved': 1,
    });
    expect(trajectory!.responseMask).toEqual(
      trajectory!.segments.flatMap(({ kind, tokenIds }) => tokenIds.map(() => (kind === 'sampled' ? 1 : 0))),
    );
  });

  it('is told about the end whatever ended the trajectory', async () => {
    const before = ended.length;
    const { trajectories } = await play(
      () => 'wrong',
      [{ task_type: 'swedev', extra_info: { instance: 'f', environment_url: url } }],
      { maxAssistantTurns: 2 },
    );
    expect(trajectories[0]).toMatchObject({ endReason: 'max_assistant_turns', rewards: { resolved: 0 } });
    expect(ended.length).toBe(before + 1);
  });

  it('fails one trajectory, not the batch, when the environment is gone or unnamed', async () => {
    const { trajectories, metrics } = await play(
      () => 'x',
      [
        { task_type: 'swedev', extra_info: { environment_url: 'http://127.0.0.1:9' } },
        { task_type: 'swedev' },
        { task_type: 'gsm8k', reward_model: { ground_truth: '1' } },
      ],
      { maxAssistantTurns: 1 },
    );
    expect(trajectories[0]!.error).toMatch(/environment at http:\/\/127\.0\.0\.1:9\/start cannot be reached/);
    expect(trajectories[1]!.error).toMatch(/no environment URL; set extra_info\.environment_url/);
    expect(metrics).toMatchObject({ 'agent/end_reason/error': 2, 'agent/end_reason/max_assistant_turns': 1 });
  });
});

describe('gen_chat', () => {
  it('sends the whole conversation each turn', async () => {
    const { trajectories } = await play(
      () => 'Hello.',
      [{ task_type: 'gen_chat', extra_info: { instance: 'f', environment_url: url } }],
    );
    expect(trajectories[0]!.messages.map(({ role, content }) => `${role}: ${content}`)).toEqual([
      'user: gen_chat: make f return 4',
      'assistant: Hello.',
      'user: You said 2 messages.',
      'assistant: Hello.',
    ]);
    expect(trajectories[0]!.endReason).toBe('environment_done');
  });
});

describe('gsm8k', () => {
  it('gives feedback, counts attempts, and rewards the right answer', async () => {
    const turns = ['#### 5', '#### 1,072'];
    const { trajectories, metrics } = await play(
      () => turns.shift()!,
      [{ task_type: 'gsm8k', reward_model: { ground_truth: '1072' } }],
    );
    expect(trajectories[0]).toMatchObject({ endReason: 'environment_done', rewards: { gsm8k: 1 } });
    expect(metrics).toMatchObject({ 'agent/task_agent/gsm8k/attempts': 2, 'agent/task_agent/gsm8k/correct': 1 });
  });
});

it('a task of one’s own', async () => {
  registerTask<{ left: number }>({
    name: 'countdown',
    start: () => ({ state: { left: 2 } }),
    observe: (state) => (--state.left > 0 ? { messages: [{ role: 'user', content: 'again' }] } : {}),
    end: () => ({ reward: 0.5 }),
  });
  const { trajectories } = await play(() => 'tick', [{ task_type: 'countdown' }]);
  expect(trajectories[0]).toMatchObject({ endReason: 'stop', assistantTurns: 2, rewardScore: 0.5 });
  const { trajectories: unknown } = await play(() => 'tick', [{ task_type: 'count' }]);
  expect(unknown[0]!.error).toMatch(/no task type "count"; there are: gsm8k, swedev, gen_chat/);
});
