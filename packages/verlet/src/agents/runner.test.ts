import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import type { Tokenizer } from '../models/tokenizer/index.js';
import {
  type AgentRow,
  defineTool,
  type RewardFunction,
  registerAgentLoop,
  runAgents,
  type Tool,
  tokenLevelScores,
} from './index.js';
import { type Script, ScriptedEngine, tinyTokenizer } from './testing/index.js';

let tokenizer: Tokenizer;
let endTokenId: number;
beforeAll(async () => {
  ({ tokenizer, endTokenId } = await tinyTokenizer());
});

const engineOf = (script: Script) => new ScriptedEngine({ tokenizer, endTokenId, script });
const call = (name: string) => `<tool_call>{"name": "${name}", "arguments": {}}</tool_call>`;
const row = (content: string, more: Partial<AgentRow> = {}): AgentRow => ({
  prompt: [{ role: 'user', content }],
  agent_name: 'tool_agent',
  ...more,
});
const config = { responseLength: 4000, maxPromptLength: 4000 };

/** Calls the tool named in the user's message once, then stops. */
const callWhatIsAsked: Script = (prompt) =>
  prompt.includes('<tool_response>') ? 'done' : call(/user\n(\w+)<\|im_end\|>/.exec(prompt)![1]!);

function tool(name: string, execute: () => unknown, more: Partial<Tool> = {}): Tool {
  return { ...defineTool({ name, description: name, input: z.object({}), execute }), ...more };
}

describe('a batch with tools that hang, crash and flood', () => {
  const hangs = tool('hangs', () => new Promise(() => {}), { timeoutSeconds: 0.05 });
  const crashes = tool('crashes', () => {
    throw new Error('the disk is on fire');
  });
  const floods = tool('floods', () => 'x'.repeat(10 << 20));
  const works = tool('works', () => 'fine');

  it('completes, and every reason is counted', async () => {
    const rows = ['hangs', 'crashes', 'floods', 'works'].flatMap((name) => [row(name), row(name)]);
    const { trajectories, metrics } = await runAgents(rows, {
      engine: engineOf(callWhatIsAsked),
      tokenizer,
      config,
      tools: [hangs, crashes, floods, works],
    });
    expect(trajectories.map(({ toolCalls }) => toolCalls[0]!.status)).toEqual([
      'timeout',
      'timeout',
      'error',
      'error',
      'ok',
      'ok',
      'ok',
      'ok',
    ]);
    expect(trajectories.every(({ endReason }) => endReason === 'stop')).toBe(true);
    expect(metrics).toMatchObject({
      'agent/end_reason/stop': 8,
      'agent/tool_status/timeout': 2,
      'agent/tool_status/error': 2,
      'agent/tool_status/ok': 4,
      'agent/tool_responses_truncated': 2,
    });
    expect(trajectories[0]!.toolCalls[0]!.response).toBe('Error: tool hangs did not finish within 0.05 s');
    expect(trajectories[2]!.toolCalls[0]!.response).toBe('Error: the disk is on fire');
    expect(trajectories[4]!.toolCalls[0]!.response).toBe(`${'x'.repeat(128)}...(truncated)...${'x'.repeat(128)}`);
  });
});

describe('time', () => {
  it('ends a trajectory whose model never answers, and keeps the rest of the batch', async () => {
    const engine = engineOf((prompt) => (prompt.includes('slow') ? new Promise<string>(() => {}) : 'quick'));
    const { trajectories, metrics } = await runAgents([row('slow'), row('fast')], {
      engine,
      tokenizer,
      config: { ...config, trajectoryTimeoutSeconds: 0.1 },
    });
    expect(trajectories.map(({ endReason }) => endReason)).toEqual(['timeout', 'stop']);
    expect(metrics['agent/end_reason/timeout']).toBe(1);
  });

  it('leaves a loop behind that does not listen, and what it does afterwards changes nothing', async () => {
    let wake = () => {};
    const late: Promise<unknown>[] = [];
    registerAgentLoop('deaf', async (session) => {
      await session.generate();
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
      const attempt = session.generate();
      late.push(attempt.catch((error) => error.message));
      await attempt;
    });
    const { trajectories } = await runAgents([row('x', { agent_name: 'deaf' })], {
      engine: engineOf(() => 'hm'),
      tokenizer,
      config: { ...config, trajectoryTimeoutSeconds: 0.05 },
    });
    const length = trajectories[0]!.responseIds.length;
    wake();
    await new Promise((resolve) => setImmediate(resolve));
    expect(trajectories[0]).toMatchObject({ endReason: 'timeout', assistantTurns: 1 });
    expect(trajectories[0]!.responseIds).toHaveLength(length);
    expect(await late[0]).toContain('the trajectory ended: timeout');
  });

  it('may be unlimited', async () => {
    const unlimited = {
      ...config,
      trajectoryTimeoutSeconds: Number.POSITIVE_INFINITY,
      toolTimeoutSeconds: Number.POSITIVE_INFINITY,
    };
    const tools = [tool('works', () => new Promise((resolve) => setTimeout(resolve, 20, 'fine')))];
    const { trajectories } = await runAgents([row('works')], {
      engine: engineOf(callWhatIsAsked),
      tokenizer,
      config: unlimited,
      tools,
    });
    expect(trajectories[0]).toMatchObject({ endReason: 'stop', toolCalls: [{ status: 'ok' }] });
  });

  it('the caller can end the batch', async () => {
    const controller = new AbortController();
    const running = runAgents([row('a'), row('b')], {
      engine: engineOf(() => new Promise<string>(() => {})),
      tokenizer,
      config,
      signal: controller.signal,
    });
    setImmediate(() => controller.abort());
    const { trajectories } = await running;
    expect(trajectories.map(({ endReason }) => endReason)).toEqual(['abort', 'abort']);
  });
});

it('a loop that throws is one failed trajectory, with its message', async () => {
  registerAgentLoop('clumsy', async (session) => {
    await session.generate();
    throw new Error('dropped it');
  });
  const { trajectories, metrics } = await runAgents(
    [row('x', { agent_name: 'clumsy' }), row('y', { agent_name: 'single_turn_agent' })],
    { engine: engineOf(() => 'hm'), tokenizer, config },
  );
  expect(trajectories[0]).toMatchObject({ endReason: 'error', error: 'dropped it', assistantTurns: 1 });
  expect(metrics).toMatchObject({ 'agent/end_reason/error': 1, 'agent/end_reason/stop': 1 });
});

describe('rewards', () => {
  const scoredTool = defineTool({
    name: 'check',
    description: 'Checks',
    input: z.object({}),
    create: ({ kwargs }) => ({ bonus: Number(kwargs.bonus ?? 0) }),
    execute: (_, { state }) => ({ text: 'ok', reward: state.bonus }),
    reward: () => 0.5,
  });
  const rows = [row('check', { tools_kwargs: { check: { create_kwargs: { bonus: 0.1 } } }, data_source: 'checks' })];
  const reward: RewardFunction = () => ({ accuracy: 1, format: 0.2 });

  it('of turns and of the trajectory are kept apart and land on sampled tokens', async () => {
    const { trajectories, metrics } = await runAgents(rows, {
      engine: engineOf(callWhatIsAsked),
      tokenizer,
      config,
      tools: [scoredTool],
      reward,
    });
    const trajectory = trajectories[0]!;
    const first = trajectory.segments[0]!.tokenIds.length - 1;
    const last = trajectory.responseIds.length - 1;
    const nonZero = (mode: 'turn' | 'trajectory' | 'mixed', channelWeights = {}) =>
      Object.fromEntries(
        tokenLevelScores(trajectory, { mode, channelWeights }).flatMap((score, index) =>
          score === 0 ? [] : [[index, score]],
        ),
      );
    expect(nonZero('turn')).toEqual({ [first]: 0.1, [last]: 0.5 });
    expect(nonZero('trajectory')).toEqual({ [last]: 1.2 });
    expect(nonZero('mixed')).toEqual({ [first]: 0.1, [last]: 1.7 });
    expect(nonZero('mixed', { format: 0, 'tool/check': 2 })).toEqual({ [first]: 0.2, [last]: 2 });
    expect(metrics).toMatchObject({
      'reward_channel/checks/turn/tool/check': 0.6,
      'reward_channel/checks/trajectory/accuracy': 1,
      'reward_channel/checks/trajectory/format': 0.2,
    });
    expect(trajectory.rewardScore).toBeCloseTo(1.2);
  });

  it('are computed while others still generate', async () => {
    const order: string[] = [];
    let release: (text: string) => void = () => {};
    const secondAnswer = new Promise<string>((resolve) => {
      release = resolve;
    });
    const engine = engineOf((prompt) => (prompt.includes('second') ? secondAnswer : 'first'));
    const single = { agent_name: 'single_turn_agent' };
    await runAgents([row('first', single), row('second', single)], {
      engine,
      tokenizer,
      config,
      reward: (trajectory) => {
        order.push(tokenizer.decode(trajectory.promptIds).includes('second') ? 'second' : 'first');
        release('second');
        return 1;
      },
    });
    expect(order).toEqual(['first', 'second']);
  });

  it.each([
    ['throws', () => Promise.reject(new Error('judge is away')), /judge is away/],
    ['gives NaN', () => Number.NaN, /finite numbers/],
    ['hangs', () => new Promise<number>(() => {}), /did not finish/],
  ])('a reward function that %s leaves a null score and a count, never a silent 0', async (_, broken, message) => {
    const { trajectories, metrics } = await runAgents([row('x', { agent_name: 'single_turn_agent' })], {
      engine: engineOf(() => 'hm'),
      tokenizer,
      config: { ...config, rewardTimeoutSeconds: 0.05 },
      reward: broken,
    });
    expect(trajectories[0]).toMatchObject({ rewardScore: null, rewardError: expect.stringMatching(message) });
    expect(metrics['agent/reward_errors']).toBe(1);
  });
});

describe('the life of a tool', () => {
  it('is create, execute, reward, release, once per trajectory that used it', async () => {
    const events: string[] = [];
    const living = defineTool({
      name: 'living',
      description: '',
      input: z.object({}),
      create: ({ instanceId }) => {
        events.push('create');
        return instanceId;
      },
      execute: (_, { state, instanceId }) => {
        events.push('execute');
        expect(state).toBe(instanceId);
        return 'ok';
      },
      reward: () => {
        events.push('reward');
        return 1;
      },
      release: () => {
        events.push('release');
        throw new Error('stuck');
      },
    });
    const turns = [call('living'), call('living'), 'done'];
    const { trajectories } = await runAgents([row('x')], {
      engine: engineOf(() => turns.shift()!),
      tokenizer,
      config,
      tools: [living],
    });
    expect(events).toEqual(['create', 'execute', 'execute', 'reward', 'release']);
    expect(trajectories[0]!.extraFields['tool_error/living']).toBe('stuck');
    events.length = 0;
    await runAgents([row('x')], { engine: engineOf(() => 'no need'), tokenizer, config, tools: [living] });
    expect(events).toEqual([]);
  });
});

describe('many at once', () => {
  it('runs hundreds together, each with its own noise key and sampling', async () => {
    const engine = engineOf(callWhatIsAsked);
    const rows = Array.from({ length: 300 }, (_, index) =>
      row('works', index % 2 ? { sampling: { temperature: 0.5 } } : {}),
    );
    const { trajectories } = await runAgents(rows, {
      engine,
      tokenizer,
      config: { ...config, sampling: { temperature: 1, seed: 7 } },
      tools: [tool('works', () => 'fine')],
    });
    expect(trajectories).toHaveLength(300);
    expect(trajectories.every(({ numTurns, endReason }) => numTurns === 4 && endReason === 'stop')).toBe(true);
    expect(engine.peakConcurrency).toBe(300);
    expect(new Set(engine.requests.slice(0, 300).map(({ sampleIndex }) => sampleIndex)).size).toBe(300);
    const { sampling } = engine.requests.find(({ sampleIndex }) => sampleIndex === 1)!;
    expect(sampling).toMatchObject({ temperature: 0.5, seed: 7 });
  });

  it('draws every turn with noise of its own, the same again in another run', async () => {
    const seedsOf = async () => {
      const engine = engineOf(callWhatIsAsked);
      const tools = [tool('works', () => 'fine')];
      await runAgents([row('works')], { engine, tokenizer, config: { ...config, sampling: { seed: 7 } }, tools });
      return engine.requests.map(({ sampling }) => sampling!.seed);
    };
    const seeds = await seedsOf();
    expect(seeds[0]).toBe(7);
    expect(seeds[1]).not.toBe(7);
    expect(await seedsOf()).toEqual(seeds);
  });

  it('takes the tokens per turn from the row, else from the batch', async () => {
    const rows = [
      row('x', { agent_name: 'single_turn_agent', sampling: { maxTokens: 2 } }),
      row('x', { agent_name: 'single_turn_agent' }),
    ];
    const options = {
      engine: engineOf(() => 'one two three four'),
      tokenizer,
      config: { ...config, sampling: { maxTokens: 3 } },
    };
    const { trajectories } = await runAgents(rows, options);
    expect(trajectories.map(({ responseIds }) => responseIds.length)).toEqual([2, 3]);
  });

  it('keeps to the limit on concurrent trajectories', async () => {
    const engine = engineOf(() => 'hm');
    const rows = Array.from({ length: 20 }, () => row('x', { agent_name: 'single_turn_agent' }));
    await runAgents(rows, { engine, tokenizer, config: { ...config, maxConcurrentTrajectories: 3 } });
    expect(engine.peakConcurrency).toBe(3);
  });
});

it('a row can narrow down its tools', async () => {
  const tools = [tool('works', () => 'fine'), tool('other', () => 'fine')];
  const { trajectories } = await runAgents([row('works', { extra_info: { tool_selection: ['other'] } })], {
    engine: engineOf(callWhatIsAsked),
    tokenizer,
    config,
    tools,
  });
  expect(trajectories[0]!.toolCalls[0]!.status).toBe('unknown_tool');
});

describe('the tokenization check', () => {
  const turns = (second: string) => {
    const said = [call('works'), second];
    return engineOf(() => said.shift()!);
  };
  const run = async (engine: ScriptedEngine, mode: 'strict' | 'ignore_strippable') =>
    (
      await runAgents([row('x')], {
        engine,
        tokenizer,
        config: { ...config, tokenizationSanityCheckMode: mode },
        tools: [tool('works', () => 'fine')],
      })
    ).trajectories[0]!;

  it('finds nothing where the record is what the template would write', async () => {
    expect((await run(turns('All good.'), 'strict')).metrics.tokenization_mismatch).toBe(0);
  });

  it('counts tokens that no tokenizer would have given', async () => {
    const engine = turns('The capital');
    const submit = engine.submit.bind(engine);
    const spelled = [...'The capital'].flatMap((character) => Array.from(tokenizer.encode(character)));
    engine.submit = (request) => {
      const generation = submit(request);
      if (engine.requests.length < 2) return generation;
      const tokenIds = [...spelled, endTokenId];
      const output = generation.output.then((out) => ({
        ...out,
        tokenIds,
        logProbs: tokenIds.map(() => -1),
        weightVersions: tokenIds.map(() => 0),
      }));
      return { ...generation, output };
    };
    expect((await run(engine, 'strict')).metrics.tokenization_mismatch).toBe(1);
  });
});

it('arguments of tools and interactions are found inside extra_info, where verl’s datasets keep them', async () => {
  const said = ['#### 3'];
  const kwargs = { interaction_kwargs: { name: 'gsm8k', ground_truth: '3' } };
  const { trajectories } = await runAgents([row('x', { agent_name: 'interaction_agent', extra_info: kwargs })], {
    engine: engineOf(() => said.shift()!),
    tokenizer,
    config,
  });
  expect(trajectories[0]!.endReason).toBe('interaction_terminated');
});
