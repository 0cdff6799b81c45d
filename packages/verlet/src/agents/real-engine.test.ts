/** Loops over a real model: what is recorded is what one pass of that model over the recorded tokens says. */
import { manualSeed, nn, noGrad, scope } from '@verlet/torch';
import { generateText } from 'ai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type CausalLM, createCausalLM, PackedAttention } from '../models/index.js';
import type { Tokenizer } from '../models/tokenizer/index.js';
import { RolloutEngine } from '../rollout/engine.js';
import { type AgentRow, Policy, registerAgentLoop, runAgents, runPrograms, type Trajectory } from './index.js';
import { tinyTokenizer } from './testing/index.js';

let tokenizer: Tokenizer;
let model: CausalLM;
let engine: RolloutEngine;
beforeAll(async () => {
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
    max_position_embeddings: 512,
    rms_norm_eps: 1e-6,
    tie_word_embeddings: true,
    initializer_range: 0.3,
    eos_token_id: made.endTokenId,
  });
  engine = new RolloutEngine(model, { tokenizer, maxNumSeqs: 32 });
});
afterAll(() => engine?.close());

/** Log-probs of the sampled tokens under one pass over prompt and response. */
function recomputed({ promptIds, responseIds }: Trajectory): number[] {
  const ids = [...promptIds, ...responseIds];
  return scope(() => {
    const context = new PackedAttention([ids.length], 'cpu');
    const hidden = noGrad(() => model.model.forward(nn.indexTensor(ids), context));
    const predictors = hidden.narrow(0, promptIds.length - 1, responseIds.length).contiguous();
    const { logProbs } = new nn.LogProbHead(predictors, model.headWeight, nn.indexTensor(responseIds)).result;
    const values = Array.from(logProbs.toArray() as ArrayLike<number>);
    context.dispose();
    return values;
  });
}

function expectTrue(trajectories: readonly Trajectory[]): void {
  for (const trajectory of trajectories) {
    const wanted = recomputed(trajectory);
    trajectory.responseMask.forEach((sampled, index) => {
      expect(trajectory.rolloutLogProbs[index]).toBeCloseTo(sampled ? wanted[index]! : 0, 3);
    });
  }
}

const config = { responseLength: 120, maxPromptLength: 200, sampling: { seed: 5 } };
const rows = (count: number, agent_name: string): AgentRow[] =>
  Array.from({ length: count }, (_, index) => ({
    prompt: [{ role: 'user', content: `What is ${index}?` }],
    agent_name,
  }));

describe('with a real model', () => {
  it('three turns with chat messages and raw text between', async () => {
    registerAgentLoop('three_turns', async (session) => {
      await session.generate({ maxTokens: 6 });
      session.append([{ role: 'user', content: 'Go on.' }]);
      await session.generate({ maxTokens: 6 });
      session.appendText('\nObservation: 3\n');
      await session.generate({ maxTokens: 6 });
    });
    const { trajectories } = await runAgents(rows(6, 'three_turns'), { engine, tokenizer, config });
    expect(trajectories.every(({ assistantTurns }) => assistantTurns === 3)).toBe(true);
    expectTrue(trajectories);
    expect(engine.stats.numCachedTokens).toBeGreaterThan(0);
    expect(new Set(trajectories.map(({ responseIds }) => responseIds.slice(0, 6).join())).size).toBeGreaterThan(3);

    const again = await runAgents(rows(6, 'three_turns'), {
      engine,
      tokenizer,
      config: { ...config, maxConcurrentTrajectories: 3 },
    });
    expect(again.trajectories.map(({ responseIds }) => responseIds)).toEqual(
      trajectories.map(({ responseIds }) => responseIds),
    );
  });

  it('an agent of the Vercel AI SDK that talks twice', async () => {
    const policy = new Policy({ engine, tokenizer, config });
    const { trajectories } = await runPrograms(policy, rows(2, 'program'), async (row) => {
      const ask = (messages: { role: 'user' | 'assistant'; content: string }[]) =>
        generateText({ model: policy.languageModel(), messages, maxOutputTokens: 6 });
      const first = { role: 'user' as const, content: String(row.prompt[0]!.content) };
      const { text } = await ask([first]);
      await ask([first, { role: 'assistant', content: text }, { role: 'user', content: 'Sure?' }]);
      return 1;
    });
    expect(trajectories).toHaveLength(2);
    expect(trajectories.every(({ assistantTurns }) => assistantTurns === 2)).toBe(true);
    expectTrue(trajectories);
  });
});
