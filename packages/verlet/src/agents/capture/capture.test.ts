import { generateText, stepCountIs, streamText, tool } from 'ai';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import type { Tokenizer } from '../../models/tokenizer/index.js';
import { type Script, ScriptedEngine, tinyTokenizer } from '../testing/index.js';
import type { ChatMessage, ToolSchema, Trajectory } from '../types.js';
import {
  type AgentProgram,
  type CaptureSession,
  ContextOverflowError,
  Policy,
  runPrograms,
  withAgentName,
} from './index.js';

let tokenizer: Tokenizer;
let endTokenId: number;
let engine: ScriptedEngine;
let policy: Policy;
let script: Script;
beforeAll(async () => {
  ({ tokenizer, endTokenId } = await tinyTokenizer());
});
beforeEach(() => {
  script = () => 'Yes.';
  engine = new ScriptedEngine({
    tokenizer,
    endTokenId,
    script: (prompt, request) => script(prompt, request),
    maxModelLength: 2000,
  });
  policy = new Policy({
    engine,
    tokenizer,
    config: { responseLength: 1000, maxPromptLength: 1000, sampling: { seed: 3 } },
  });
});

const user = (content: string): ChatMessage => ({ role: 'user', content });
const assistant = (content: string): ChatMessage => ({ role: 'assistant', content });
const story = ({ segments }: Trajectory) =>
  segments
    .map((segment) =>
      segment.kind === 'injected'
        ? `«${tokenizer.decode(segment.tokenIds)}»`
        : segment.shared
          ? `(${tokenizer.decode(segment.tokenIds)})`
          : tokenizer.decode(segment.tokenIds),
    )
    .join('');
const between = (text: string) => `«\n<|im_start|>user\n${text}<|im_end|>\n<|im_start|>assistant\n»`;

describe('a call that extends another', () => {
  it('goes on from its token ids, although a fresh tokenisation would differ', async () => {
    // Sampled one character at a time: ids that the tokenizer would never give for this text.
    const odd = [...'The capital'].flatMap((character) => Array.from(tokenizer.encode(character)));
    expect(odd).not.toEqual(Array.from(tokenizer.encode('The capital')));
    const session = policy.openSession();
    const submit = engine.submit.bind(engine);
    engine.submit = (request) => {
      const generation = submit(request);
      const output = generation.output.then((out) =>
        engine.requests.length === 1
          ? {
              ...out,
              tokenIds: [...odd, endTokenId],
              logProbs: Array(odd.length + 1).fill(-1),
              weightVersions: Array(odd.length + 1).fill(0),
            }
          : out,
      );
      return { ...generation, output };
    };
    const first = await session.chat({ messages: [user('Hi')] });
    expect(first.text).toBe('The capital');
    const second = await session.chat({ messages: [user('Hi'), assistant(first.text), user('Go on')] });
    expect(second.promptIds.slice(0, first.promptIds.length + odd.length + 1)).toEqual([
      ...first.promptIds,
      ...odd,
      endTokenId,
    ]);
    expect(second.numReusedTokens).toBe(first.promptIds.length + odd.length + 1);
    const [trajectory, ...others] = session.finish({ score: 1 });
    expect(others).toEqual([]);
    expect(story(trajectory!)).toBe(`The capital<|im_end|>${between('Go on')}Yes.<|im_end|>`);
    expect(trajectory).toMatchObject({ assistantTurns: 2, numTurns: 4, rewardScore: 1 });
  });

  it('equals the whole template when the tokenisation does not differ', async () => {
    const session = policy.openSession();
    const first = await session.chat({ messages: [user('Hi')] });
    const messages = [user('Hi'), assistant(first.text), user('And?')];
    const second = await session.chat({ messages });
    expect(second.promptIds).toEqual(Array.from(tokenizer.encodeChat(messages, { addGenerationPrompt: true })));
  });

  it('is recognised although the client has dropped the thinking and written the arguments anew', async () => {
    const tools: ToolSchema[] = [{ type: 'function', function: { name: 'add', parameters: { type: 'object' } } }];
    script = (prompt) =>
      prompt.includes('<tool_response>')
        ? 'Three.'
        : '<think>\nadd them\n</think>\n\n<tool_call>\n{"name": "add", "arguments": {"a": 1, "b": 2}}\n</tool_call>';
    const session = policy.openSession();
    const first = await session.chat({ messages: [user('1+2?')], tools });
    expect(first).toMatchObject({
      finishReason: 'tool_calls',
      reasoning: 'add them',
      text: '',
      toolCalls: [{ name: 'add', arguments: { a: 1, b: 2 } }],
    });
    const sentBack: ChatMessage = {
      role: 'assistant',
      content: null,
      tool_calls: [
        { id: first.toolCalls[0]!.id, type: 'function', function: { name: 'add', arguments: '{ "b":2, "a":1 }' } },
      ],
    };
    const second = await session.chat({
      messages: [user('1+2?'), sentBack, { role: 'tool', tool_call_id: first.toolCalls[0]!.id, content: '3' }],
      tools,
    });
    expect(second.numReusedTokens).toBeGreaterThan(0);
    expect(session.finish()).toHaveLength(1);
    expect(tokenizer.decode(second.promptIds)).toContain('<think>\nadd them\n</think>');
  });
});

describe('histories that were changed', () => {
  it('edited or compacted ones are trajectories of their own', async () => {
    const session = policy.openSession();
    const first = await session.chat({ messages: [user('Hi')] });
    const compacted = await session.chat({ messages: [user('Summary: they said hi'), user('Go on')] });
    const edited = await session.chat({ messages: [user('Hi'), assistant(`${first.text} Really.`), user('Go on')] });
    expect([compacted.numReusedTokens, edited.numReusedTokens]).toEqual([0, 0]);
    const trajectories = session.finish();
    expect(trajectories).toHaveLength(3);
    expect(trajectories.map(({ responseMask }) => responseMask.every(Boolean))).toEqual([true, true, true]);
    expect(trajectories.map(({ extraFields }) => extraFields.trajectory_index)).toEqual([0, 1, 2]);
  });

  it('other tools are another conversation', async () => {
    const session = policy.openSession();
    const first = await session.chat({ messages: [user('Hi')] });
    const tools: ToolSchema[] = [{ type: 'function', function: { name: 'add' } }];
    const second = await session.chat({ messages: [user('Hi'), assistant(first.text), user('x')], tools });
    expect(second.numReusedTokens).toBe(0);
  });

  it('branches share what came before; it is trained once', async () => {
    const session = policy.openSession();
    const first = await session.chat({ messages: [user('Hi')] });
    const start = [user('Hi'), assistant(first.text)];
    await Promise.all(['left', 'right'].map((way) => session.chat({ messages: [...start, user(way)] })));
    const [left, right] = session.finish();
    expect(story(left!)).toBe(`Yes.<|im_end|>${between('left')}Yes.<|im_end|>`);
    expect(story(right!)).toBe(`(Yes.<|im_end|>)${between('right')}Yes.<|im_end|>`);
    const trained = [left!, right!].flatMap(({ responseMask }) => responseMask).filter(Boolean).length;
    expect(trained).toBe(3 * first.tokenIds.length);
  });
});

describe('noise', () => {
  it('is another one when a program asks the same thing again, and the same in another run', async () => {
    const seedsOf = async () => {
      const before = engine.requests.length;
      const session = policy.openSession();
      await Promise.all([1, 2, 3].map(() => session.chat({ messages: [user('Hi')] })));
      await session.chat({ messages: [user('Hi')], sampling: { seed: 9 } });
      return engine.requests.slice(before).map(({ sampling }) => sampling!.seed);
    };
    const seeds = await seedsOf();
    expect(new Set(seeds).size).toBe(4);
    expect([seeds[0], seeds[3]]).toEqual([3, 9]);
    expect(await seedsOf()).toEqual(seeds);
  });

  it('is another one when a conversation goes on, whatever was asked in between', async () => {
    const seedOfSecondTurn = async (between: number) => {
      const session = policy.openSession();
      const first = await session.chat({ messages: [user('Hi')] });
      for (let k = 0; k < between; k++) await session.chat({ messages: [user(`Other ${k}`)] });
      await session.chat({ messages: [user('Hi'), assistant(first.text), user('Go on')] });
      return engine.requests.at(-1)!.sampling!.seed;
    };
    const seed = await seedOfSecondTurn(0);
    expect(seed).not.toBe(3);
    expect(await seedOfSecondTurn(2)).toBe(seed);
  });

  it('and sampling follow the row', async () => {
    const rows = [{ prompt: [user('Hi')], sampling: { temperature: 0.2 } }];
    await runPrograms(policy, rows, async (row, { session }) => {
      await session.chat({ messages: row.prompt });
    });
    expect(engine.requests.at(-1)!.sampling).toMatchObject({ temperature: 0.2, seed: 3 });
  });
});

describe('sampling that a program asks for', () => {
  const asked = { temperature: 0, topP: 0.5, maxTokens: 5, stop: ['!'] };
  const samplingOf = async (programSampling: 'program' | 'rollout') => {
    const { options } = policy;
    const other = new Policy({ ...options, config: { ...options.config, programSampling } });
    const rows = [{ prompt: [user('Hi')], sampling: { temperature: 0.7 } }];
    const { trajectories } = await runPrograms(other, rows, async (row, { session }) => {
      await session.chat({ messages: row.prompt, sampling: { temperature: 0.7 } });
      await session.chat({ messages: [user('Ho')], sampling: asked });
    });
    return { sampling: engine.requests.at(-1)!.sampling, overruled: trajectories[0]!.metrics.overruled_calls };
  };

  it('is its own where nothing is trained', async () => {
    expect(await samplingOf('program')).toMatchObject({ sampling: asked, overruled: 0 });
  });

  it('does not change the distribution in training; what was overruled is counted', async () => {
    const { sampling, overruled } = await samplingOf('rollout');
    expect(sampling).toMatchObject({ temperature: 0.7, maxTokens: 5, stop: ['!'] });
    expect(sampling!.topP ?? 1).toBe(1);
    expect(overruled).toBe(1);
  });
});

describe('limits', () => {
  it('a conversation that does not fit is refused with the code agents know', async () => {
    const session = policy.openSession();
    const tooLong = session.chat({ messages: [user('x '.repeat(2000))] });
    await expect(tooLong).rejects.toBeInstanceOf(ContextOverflowError);
    await expect(tooLong).rejects.toMatchObject({ code: 'context_length_exceeded' });
  });

  it('a call that was aborted leaves no trajectory', async () => {
    const session = policy.openSession();
    script = () => new Promise<string>(() => {});
    const controller = new AbortController();
    const pending = session.chat({ messages: [user('Hi')], signal: controller.signal });
    setImmediate(() => controller.abort());
    expect((await pending).finishReason).toBe('abort');
    expect(session.finish()).toEqual([]);
  });

  it('calls wait while weights are updated', async () => {
    const session = policy.openSession();
    const resume = policy.hold();
    let answered = false;
    const pending = session.chat({ messages: [user('Hi')] }).then((result) => {
      answered = true;
      return result;
    });
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(answered).toBe(false);
    await engine.updateWeights();
    resume();
    expect((await pending).weightVersions[0]).toBe(1);
  });
});

const addTool = tool({
  description: 'Adds',
  inputSchema: z.object({ a: z.number(), b: z.number() }),
  execute: async ({ a, b }) => a + b,
});
const useTool: Script = (prompt) =>
  prompt.includes('<tool_response>\n3')
    ? 'It is 3.'
    : '<tool_call>\n{"name": "add", "arguments": {"a": 1, "b": 2}}\n</tool_call>';

describe('an agent of the Vercel AI SDK', () => {
  it('is trained unchanged: its tool loop is one trajectory, its return value the reward', async () => {
    script = useTool;
    const rows = Array.from({ length: 8 }, (_, index) => ({
      prompt: [user(`What is 1 + 2 in world ${index}?`)],
      data_source: 'sums',
      uid: `u${index}`,
    }));
    const { trajectories, metrics } = await runPrograms(policy, rows, async (row) => {
      const { text, steps } = await generateText({
        model: policy.languageModel(),
        system: 'Be brief.',
        prompt: String(row.prompt[0]!.content),
        tools: { add: addTool },
        stopWhen: stepCountIs(4),
        temperature: 0.9,
      });
      expect(steps).toHaveLength(2);
      return text.includes('3') ? 1 : 0;
    });
    expect(trajectories.map(({ rewardScore, uid }) => [rewardScore, uid])).toEqual(rows.map(({ uid }) => [1, uid]));
    expect(story(trajectories[0]!)).toBe(
      `<tool_call>\n{"name": "add", "arguments": {"a": 1, "b": 2}}\n</tool_call><|im_end|>${between('<tool_response>\n3\n</tool_response>')}It is 3.<|im_end|>`,
    );
    expect(tokenizer.decode(trajectories[5]!.promptIds)).toContain('in world 5?');
    expect(engine.requests[0]!.sampling).toMatchObject({ temperature: 0.9, seed: 3 });
    expect(metrics).toMatchObject({
      'agent/programs': 8,
      'agent/program_errors': 0,
      'reward_channel/sums/trajectory/score': 1,
    });
  });

  it('may stream', async () => {
    script = useTool;
    const { trajectories } = await runPrograms(policy, [{ prompt: [] }], async () => {
      const result = streamText({
        model: policy.languageModel(),
        prompt: '1 + 2?',
        tools: { add: addTool },
        stopWhen: stepCountIs(4),
      });
      let text = '';
      for await (const delta of result.textStream) text += delta;
      return { exact: text === 'It is 3.' ? 1 : 0, length: 0.5 };
    });
    expect(trajectories).toHaveLength(1);
    expect(trajectories[0]).toMatchObject({ rewards: { exact: 1, length: 0.5 }, rewardScore: 1.5, assistantTurns: 2 });
  });

  it('may insist on a tool call: its beginning is context, its arguments are sampled', async () => {
    const session = policy.openSession();
    script = (prompt) =>
      prompt.endsWith('{"name": "add", "arguments": ') ? '{"a": 1, "b": 2}}\n</tool_call>' : 'no call';
    const { toolCalls } = await policy.run(session, () =>
      generateText({
        model: policy.languageModel(),
        prompt: 'Add',
        tools: { add: addTool },
        toolChoice: { type: 'tool', toolName: 'add' },
      }),
    );
    expect(toolCalls).toMatchObject([{ toolName: 'add', input: { a: 1, b: 2 } }]);
    const [trajectory] = session.finish();
    expect(story(trajectory!)).toBe('{"a": 1, "b": 2}}\n</tool_call><|im_end|>');
    expect(tokenizer.decode(trajectory!.promptIds)).toMatch(/"arguments": $/);
  });

  it('hands out token ids and log-probs to whoever asks', async () => {
    const session = policy.openSession();
    const { providerMetadata, usage } = await policy.run(session, () =>
      generateText({ model: policy.languageModel(), prompt: 'Hi' }),
    );
    const ids = [...Array.from(tokenizer.encode('Yes.')), endTokenId];
    expect(providerMetadata!.verlet).toMatchObject({
      tokenIds: ids,
      logProbs: ids.map((_, index) => -(index + 1) / 100),
    });
    expect(usage.outputTokens).toBe(ids.length);
  });

  it('nested and parallel calls find their own rollout and sub-agent', async () => {
    script = async (prompt) => {
      await new Promise((resolve) => setTimeout(resolve, prompt.length % 7));
      return 'ok';
    };
    const ask = (prompt: string) => generateText({ model: policy.languageModel(), prompt });
    const rows = Array.from({ length: 10 }, (_, index) => ({ prompt: [user(`row ${index}`)] }));
    const { trajectories } = await runPrograms(policy, rows, async (row) => {
      const name = String(row.prompt[0]!.content);
      await ask(`${name} plan`);
      await Promise.all(
        ['a', 'b'].map((worker) =>
          withAgentName(worker, async () => {
            await new Promise((resolve) => setTimeout(resolve, Math.random() * 5));
            await ask(`${name} worker ${worker}`);
          }),
        ),
      );
    });
    expect(trajectories).toHaveLength(30);
    for (const trajectory of trajectories)
      expect(tokenizer.decode(trajectory.promptIds)).toContain(`row ${trajectory.rowIndex} `);
    expect(
      trajectories
        .filter(({ rowIndex }) => rowIndex === 4)
        .map(({ agentName }) => agentName)
        .sort(),
    ).toEqual(['a', 'b', 'program']);
    expect(trajectories.every(({ rewardScore }) => rewardScore === null)).toBe(true);
  });

  it('outside of a rollout is told how to get into one', async () => {
    await expect(generateText({ model: policy.languageModel(), prompt: 'Hi', maxRetries: 0 })).rejects.toThrow(
      /outside of a rollout/,
    );
  });
});

describe('programs that fail', () => {
  it('keep what they did, with the reason; the others go on', async () => {
    const bounded = new Policy({
      engine,
      tokenizer,
      config: { responseLength: 1000, maxPromptLength: 1000, trajectoryTimeoutSeconds: 1 },
    });
    const rows = ['throws', 'hangs', 'silent', 'nonsense', 'works'].map((content) => ({ prompt: [user(content)] }));
    const { trajectories, metrics, errors } = await runPrograms(bounded, rows, async (row, { session }) => {
      const kind = row.prompt[0]!.content;
      if (kind === 'silent') throw new Error('never asked');
      await session.chat({ messages: row.prompt });
      if (kind === 'throws') throw new Error('broke');
      if (kind === 'hangs') await new Promise(() => {});
      return kind === 'nonsense' ? Number.NaN : 1;
    });
    expect(trajectories.map(({ endReason, rewardScore }) => [endReason, rewardScore])).toEqual([
      ['error', null],
      ['timeout', null],
      ['stop', null],
      ['stop', 1],
    ]);
    expect(trajectories[2]!.rewardError).toContain('finite');
    expect(errors).toEqual(['row 0: broke', 'row 1: the program did not finish within 1 s', 'row 2: never asked']);
    expect(metrics).toMatchObject({ 'agent/program_errors': 3, 'agent/programs_without_calls': 1 });
  });

  it('because a conversation outgrew its limits are told from those that broke', async () => {
    const small = new Policy({ engine, tokenizer, config: { responseLength: 30, maxPromptLength: 100 } });
    const rows = ['long', 'longer'].map((content) => ({ prompt: [user(content)] }));
    const program: AgentProgram = async (row, { session }) => {
      const { content } = row.prompt[0]!;
      if (content === 'long') await session.chat({ messages: row.prompt });
      const endless = 'word '.repeat(200);
      try {
        const messages = content === 'long' ? [...row.prompt, assistant('Hello.'), user(endless)] : [user(endless)];
        await session.chat({ messages });
      } catch (error) {
        throw new Error('my client failed', { cause: error });
      }
    };
    script = () => 'Hello.';
    const { trajectories, metrics } = await runPrograms(small, rows, program, { keepSilent: true });
    expect(trajectories.map(({ endReason }) => endReason)).toEqual(['response_length', 'prompt_length']);
    expect(metrics['agent/program_errors']).toBe(2);
  });

  it('cannot add to a rollout that is over', async () => {
    const session: CaptureSession = policy.openSession();
    await session.chat({ messages: [user('Hi')] });
    session.finish();
    await expect(session.chat({ messages: [user('Hi')] })).rejects.toThrow(/is over/);
  });
});
