/** Weights change while programs run: their calls wait, and are answered by the new weights; nobody waits in vain. */
import { manualSeed, noGrad, scope } from '@verlet/torch';
import { generateText } from 'ai';
import OpenAI from 'openai';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { type AgentRow, RolloutOverError } from '../agents/index.js';
import { tinyTokenizer } from '../agents/testing/index.js';
import { composeConfig } from '../config/index.js';
import { type CausalLM, createCausalLM } from '../models/index.js';
import type { Tokenizer } from '../models/tokenizer/index.js';
import { RolloutEngine } from '../rollout/engine.js';
import { AgentRollout, type TrainedAgent } from './agent-rollout.js';

let tokenizer: Tokenizer;
let model: CausalLM;
let engine: RolloutEngine;
let rollout: AgentRollout;
beforeEach(async () => {
  const made = await tinyTokenizer();
  tokenizer = made.tokenizer;
  manualSeed(1);
  model = createCausalLM({
    model_type: 'qwen2',
    hidden_size: 32,
    num_attention_heads: 4,
    num_key_value_heads: 2,
    num_hidden_layers: 2,
    intermediate_size: 64,
    vocab_size: tokenizer.vocabSize,
    max_position_embeddings: 256,
    rms_norm_eps: 1e-6,
    tie_word_embeddings: true,
    initializer_range: 0.3,
    eos_token_id: made.endTokenId,
  });
  engine = new RolloutEngine(model, { tokenizer, maxNumSeqs: 32 });
});
afterEach(async () => {
  await rollout.close();
  await engine.close();
  model.dispose();
});

async function open(agent: TrainedAgent, ...overrides: string[]): Promise<void> {
  const { config } = composeConfig({
    kind: 'ppo',
    overrides: [
      'data.train_files=none.parquet',
      'actor_rollout_ref.model.path=none',
      'data.max_prompt_length=100',
      'data.max_response_length=24',
      ...overrides,
    ],
  });
  rollout = await AgentRollout.open(config, engine, tokenizer, { agent });
}

const rows = (count: number): AgentRow[] =>
  Array.from({ length: count }, (_, k) => ({ prompt: [{ role: 'user', content: `Question ${k}` }], sampleIndex: k }));

/** What an optimizer step does, for a test's eyes. */
async function changeWeights(): Promise<void> {
  await engine.sleep();
  noGrad(() => scope(() => void model.headWeight.mul_(-1)));
  await engine.updateWeights();
  await engine.wake();
}

async function until(condition: () => boolean): Promise<void> {
  for (let tries = 0; !condition(); tries++) {
    if (tries > 2000) throw new Error('it never came true');
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

it.each<[string, TrainedAgent]>([
  [
    'the AI SDK',
    async (row, { model: policy, signal }) => {
      await generateText({ model: policy, messages: row.prompt, maxRetries: 0, abortSignal: signal });
      return 1;
    },
  ],
  [
    'the openai client',
    async (row, { baseURL, apiKey, modelName }) => {
      const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
      await client.chat.completions.create({ model: modelName, messages: row.prompt });
      return 1;
    },
  ],
])('calls that %s makes during an update are answered afterwards, by the new weights', async (_, ask) => {
  let mayAsk = () => {};
  const updating = new Promise<void>((resolve) => {
    mayAsk = resolve;
  });
  let waiting = 0;
  await open(async (row, context) => {
    waiting++;
    await updating;
    return ask(row, context);
  });
  const batch = rollout.run(rows(4), {});
  await until(() => waiting === 4);
  await rollout.duringUpdate(async () => {
    mayAsk();
    await until(() => rollout.policy.heldCalls === 4);
    await changeWeights();
    expect(rollout.policy.heldCalls).toBe(4);
  });
  const { trajectories, metrics } = await batch;
  expect(metrics).toMatchObject({ 'agent/programs': 4, 'agent/program_errors': 0, 'agent/trajectories': 4 });
  for (const { weightVersions } of trajectories) expect(new Set(weightVersions)).toEqual(new Set([1]));
  // Asked again, the new weights say the same.
  const again = await rollout.run(rows(4), {});
  for (const [k, { responseIds, rolloutLogProbs }] of again.trajectories.entries()) {
    expect(trajectories[k]!.responseIds).toEqual(responseIds);
    for (const [at, logProb] of rolloutLogProbs.entries())
      expect(trajectories[k]!.rolloutLogProbs[at]).toBeCloseTo(logProb, 4);
  }
});

it('a client that goes away while its call is held leaves nothing behind, and the others go on', async () => {
  const leaving = new AbortController();
  const outcomes: string[] = [];
  await open(async (row, { baseURL, apiKey, modelName }) => {
    const leaves = row.sampleIndex === 0;
    const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
    const asked = client.chat.completions.create(
      { model: modelName, messages: row.prompt },
      leaves ? { signal: leaving.signal } : {},
    );
    outcomes[row.sampleIndex] = await asked.then(
      () => 'answered',
      (error: Error) => error.constructor.name,
    );
    return 1;
  });
  // As in a run: the last step has ended, and rows come while weights still change.
  const batch = rollout.run(rows(2), {});
  rollout.hold();
  await until(() => rollout.policy.heldCalls === 2);
  leaving.abort();
  await until(() => rollout.policy.heldCalls === 1);
  await changeWeights();
  rollout.release();
  const { trajectories, metrics } = await batch;
  expect(outcomes).toEqual(['APIUserAbortError', 'answered']);
  expect(trajectories.map(({ rowIndex }) => rowIndex)).toEqual([1]);
  expect(metrics['agent/programs_without_calls']).toBe(1);
});

it('a program whose time ends while its call is held is over; its batch does not wait for the update', async () => {
  let late: Promise<unknown> = Promise.resolve();
  await open(async (row, { session, signal }) => {
    await session.chat({ messages: row.prompt });
    rollout.hold();
    const listening = session.chat({ messages: [{ role: 'user', content: 'Still there?' }], signal });
    late = session.chat({ messages: [{ role: 'user', content: 'Hello?' }] });
    late.catch(() => {});
    await listening;
    return 1;
  }, 'actor_rollout_ref.rollout.agent.trajectory_timeout=1.5');
  const { trajectories, metrics } = await rollout.run(rows(1), {});
  expect(metrics).toMatchObject({ 'agent/program_errors': 1, 'agent/end_reason/timeout': 1 });
  expect(trajectories).toHaveLength(1);
  expect(trajectories[0]).toMatchObject({ assistantTurns: 1, endReason: 'timeout', rewardScore: null });
  expect(trajectories[0]!.rewardError).toMatch(/did not finish within 1.5 s/);
  // The one that did not listen to its signal is told when the policy is back, and samples nothing.
  expect(rollout.policy.heldCalls).toBe(1);
  rollout.release();
  await expect(late).rejects.toBeInstanceOf(RolloutOverError);
  expect(engine.stats.numRunning + engine.stats.numWaiting).toBe(0);
});
