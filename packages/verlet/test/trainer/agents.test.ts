/** Agents inside the training step: what goes wrong in one trajectory, what a program may do, where rewards come from. */
import { rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { generateText } from 'ai';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { ChatMessage } from '../../src/agents/index.js';
import type { PpoConfig } from '../../src/config/index.js';
import { writeParquet } from '../../src/data/index.js';
import { type TrainOptions, train } from '../../src/trainer/train.js';
import { type TinySetup, tinySetup } from './tiny.js';

let tiny: TinySetup;
beforeAll(async () => {
  tiny = await tinySetup();
});
afterAll(() => rmSync(tiny.folder, { recursive: true, force: true }));

const fixture = (name: string) => fileURLToPath(new URL(name, import.meta.url));
const FAULTY = fixture('./faulty-tools.mjs');
const MCP_SERVER = fixture('../../src/agents/fixtures/mcp-server.mjs');

function write(name: string, text: string): string {
  const file = path.join(tiny.folder, name);
  writeFileSync(file, text);
  return file;
}

async function rows(name: string, columns: Record<string, unknown>[]): Promise<string> {
  const file = path.join(tiny.folder, `${name}.parquet`);
  await writeParquet(
    file,
    columns.map((column, index) => ({
      data_source: 'faults',
      prompt: [{ role: 'user', content: '1 + 2 = ?' }],
      reward_model: { style: 'rule', ground_truth: '3' },
      ...column,
      extra_info: { index, ...(column.extra_info as object) },
    })),
  );
  return file;
}

async function metricsOf(config: PpoConfig, options: Omit<TrainOptions, 'config'> = {}) {
  const steps: Record<string, number>[] = [];
  await train({ config, ...options, trackers: [{ name: 'steps', log: (metrics) => void steps.push({ ...metrics }) }] });
  return steps;
}

it('a step completes although tools hang, crash, flood and die, and counts how', async () => {
  const servers = write(
    'servers.json',
    JSON.stringify({ mcpServers: { dying: { command: 'node', args: [MCP_SERVER] } } }),
  );
  const tools = write(
    'tools.yaml',
    `tools: [{ class_name: mcp, config: { type: mcp, mcp: { mcp_servers_config_path: ${servers}, tool_selected_list: [die] } } }]`,
  );
  const loops = write(
    'loops.yaml',
    ['callsOneTool', 'throwsAfterATurn', 'neverEnds']
      .map((name) => `- { name: ${name}, _target_: '${FAULTY}#${name}' }`)
      .join('\n'),
  );
  const named = (tool: string) => ({ agent_name: 'callsOneTool', extra_info: { tool } });
  const data = await rows('faults', [
    ...['hanging', 'crashing', 'flooding', 'working', 'die', 'unheard_of'].map(named),
    { agent_name: 'throwsAfterATurn' },
    { agent_name: 'neverEnds' },
  ]);
  const [step] = await metricsOf(
    tiny.config(
      `data.train_files=${data}`,
      'data.max_response_length=40',
      'actor_rollout_ref.rollout.n=2',
      'actor_rollout_ref.rollout.multi_turn.enable=true',
      'actor_rollout_ref.rollout.agent.trajectory_timeout=8',
      `actor_rollout_ref.rollout.agent.agent_loop_config_path=${loops}`,
      `actor_rollout_ref.rollout.multi_turn.tool_config_path=${tools}`,
      `actor_rollout_ref.rollout.multi_turn.function_tool_path=${FAULTY}`,
      'actor_rollout_ref.rollout.multi_turn.tool_timeout=20',
      'trainer.total_training_steps=1',
      `trainer.default_local_dir=${tiny.folder}/faults`,
    ),
    { reward: ({ solution_str }) => solution_str.length % 2 },
  );
  expect(step).toMatchObject({
    'agent/trajectories': 16,
    'agent/tool_status/timeout': 2,
    'agent/tool_status/error': 2,
    'agent/tool_status/ok': 4,
    'agent/tool_status/unavailable': 2,
    'agent/tool_status/unknown_tool': 2,
    'agent/tool_responses_truncated': 2,
    'agent/end_reason/error': 2,
    'agent/end_reason/timeout': 2,
    'agent/neverEnds/end_reason/timeout': 2,
    'agent/callsOneTool/trajectories': 12,
    'reward/tool/working': (2 * 0.25) / 16,
  });
  expect(step!['actor/grad_norm']).toBeGreaterThan(0);
});

it('a program that talks in separate conversations gives a row for each, all with its reward', async () => {
  const config = tiny.config(
    'data.max_response_length=12',
    'trainer.total_training_steps=2',
    `trainer.default_local_dir=${tiny.folder}/program`,
  );
  const seen = new Set<string>();
  const steps = await metricsOf(config, {
    agent: async (row, { model, session, signal }) => {
      seen.add(session.id);
      const ask = (list: ChatMessage[]) =>
        generateText({ model, messages: list as never, maxOutputTokens: 4, maxRetries: 0, abortSignal: signal });
      await ask(row.prompt);
      // A compacted history: nothing goes on from the first call.
      await ask([{ role: 'user', content: '2 + 2 = ?' }]);
      if (row.sampleIndex === 0) throw new Error('a program of bad habits');
      return { first: 1, second: row.sampleIndex === 1 ? 1 : 0 };
    },
  });
  expect(seen.size).toBe(2 * 32);
  for (const step of steps) {
    expect(step).toMatchObject({
      'agent/programs': 32,
      'agent/program_errors': 8,
      'agent/trajectories': 64,
      'agent/end_reason/error': 16,
      'reward/error_count': 8,
      'reward/first': 48 / 64,
      'reward/second': 16 / 64,
      'critic/score/max': 2,
      'critic/score/min': 0,
    });
    expect(step['critic/score/mean']).toBeCloseTo(1, 5);
    expect(step['actor/grad_norm']).toBeGreaterThan(0);
    // One update a step, although there are twice the rows that were asked for.
    expect(step['actor/ppo_kl']).toBeCloseTo(0, 6);
  }
});

it('a program may be named in the configuration', async () => {
  const file = write(
    'program.ts',
    `export const half = async (row: { sampleIndex: number }, { session }: { session: { chat(call: object): Promise<object> } }) => {
       await session.chat({ messages: [{ role: 'user', content: '1 + 1 = ?' }] });
       return row.sampleIndex % 2;
     };`,
  );
  const config = (name: string) =>
    tiny.config(
      'trainer.total_training_steps=1',
      `actor_rollout_ref.rollout.agent.program.path=${file}`,
      `actor_rollout_ref.rollout.agent.program.name=${name}`,
      `trainer.default_local_dir=${tiny.folder}/named`,
    );
  const [step] = await metricsOf(config('half'));
  expect(step).toMatchObject({ 'agent/programs': 32, 'critic/score/mean': 0.5 });
  await expect(metricsOf(config('whole'))).rejects.toThrow(/no function whole; it exports: half/);
});

it('silent programs are left out, and a step of nothing but silence says so', async () => {
  const config = tiny.config('trainer.total_training_steps=1', `trainer.default_local_dir=${tiny.folder}/silent`);
  const [step] = await metricsOf(config, {
    agent: async (row, { session }) => {
      if (row.sampleIndex === 3) return 1;
      await session.chat({ messages: row.prompt });
      return row.sampleIndex === 0 ? 1 : 0;
    },
  });
  expect(step).toMatchObject({ 'agent/programs_without_calls': 8, 'agent/trajectories': 24 });
  await expect(metricsOf(config, { agent: async () => 1 })).rejects.toThrow(/no agent of this step called the policy/);
});

it('rewards are computed while others still generate, and each once', async () => {
  const loops = write('waiting.yaml', `- { name: waiting, _target_: '${write('waiting.mjs', WAITING)}#waiting' }`);
  const data = await rows(
    'waiting',
    Array.from({ length: 8 }, () => ({ agent_name: 'waiting' })),
  );
  let calls = 0;
  const [step] = await metricsOf(
    tiny.config(
      `data.train_files=${data}`,
      'trainer.total_training_steps=1',
      `actor_rollout_ref.rollout.agent.agent_loop_config_path=${loops}`,
      'actor_rollout_ref.rollout.agent.trajectory_timeout=30',
      `trainer.default_local_dir=${tiny.folder}/waiting`,
    ),
    {
      // The last sample of each prompt goes on only when another one has been scored: scoring at the end would never end.
      reward: () => {
        calls++;
        (globalThis as { scoredOne?: () => void }).scoredOne!();
        return 0.5;
      },
    },
  );
  expect(calls).toBe(32);
  expect(step).toMatchObject({ 'agent/trajectories': 32, 'critic/score/mean': 0.5 });
  expect(step).not.toHaveProperty('agent/end_reason/timeout');
});

it('turn rewards, trajectory rewards or both count, weighted by channel', async () => {
  const loops = write(
    'rewarding.yaml',
    `- { name: rewarding, _target_: '${write('rewarding.mjs', REWARDING)}#rewarding' }`,
  );
  const data = await rows(
    'rewarding',
    Array.from({ length: 8 }, () => ({ agent_name: 'rewarding' })),
  );
  const score = async (...overrides: string[]) => {
    const [step] = await metricsOf(
      tiny.config(
        `data.train_files=${data}`,
        'trainer.total_training_steps=1',
        `actor_rollout_ref.rollout.agent.agent_loop_config_path=${loops}`,
        `trainer.default_local_dir=${tiny.folder}/rewarding`,
        ...overrides,
      ),
    );
    expect(step).toMatchObject({ 'reward/style': 0.5, 'reward/outcome': 1 });
    return step!['critic/score/mean'];
  };
  expect(await score()).toBeCloseTo(1.5, 5);
  expect(await score('reward_model.reward_mode=turn')).toBeCloseTo(0.5, 5);
  expect(await score('reward_model.reward_mode=trajectory')).toBeCloseTo(1, 5);
  expect(await score('+reward_model.channel_weights.style=2')).toBeCloseTo(2, 5);
});

const REWARDING = `export async function rewarding(session) {
  await session.generate({ maxTokens: 3 });
  session.rewardTurn('style', 0.5);
  session.reward('outcome', 1);
}`;

const WAITING = `const scored = new Promise((resolve) => { globalThis.scoredOne = resolve; });
export async function waiting(session) {
  await session.generate({ maxTokens: 2 });
  if (session.row.sampleIndex === 3) await scored;
}`;
