#!/usr/bin/env node
// What several turns cost: 256 trajectories of three turns at once, beside as many tokens generated in one turn.
//   node bench/agents.mjs [trajectories] [tokens per turn] [rounds]
// Prefix reuse, template rendering, tool calls and the event loop are in the first and not in the second. `one_turn` samples as
// many tokens as the three turns have in all, observations included; `one_turn_less` only as many as they sampled.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { manualSeed } from '@verlet/torch';
import { agents, closedVocabulary, createCausalLM, RolloutEngine } from 'verlet';
import { z } from 'zod';
import { turnTemplate } from '../recipes/tiny-model.mjs';

const TURNS = 3;
const [trajectories = 256, tokensPerTurn = 32, rounds = 3] = process.argv.slice(2).map(Number);

const folder = await mkdtemp(path.join(tmpdir(), 'verlet-bench-'));
const words = Array.from(
  { length: 200 },
  (_, k) => `word${String.fromCharCode(97 + (k % 26), 97 + Math.floor(k / 26))}`,
);
const tokenizer = await closedVocabulary([`user assistant tool ${words.join(' ')}`], {
  folder,
  chatTemplate: turnTemplate,
});
manualSeed(0);
const model = createCausalLM({
  model_type: 'qwen2',
  vocab_size: tokenizer.vocabSize,
  hidden_size: 128,
  intermediate_size: 384,
  num_hidden_layers: 4,
  num_attention_heads: 4,
  num_key_value_heads: 2,
  max_position_embeddings: 512,
  rms_norm_eps: 1e-6,
  rope_theta: 10000,
  tie_word_embeddings: true,
  hidden_act: 'silu',
  eos_token_id: tokenizer.eosTokenId,
});
const engine = new RolloutEngine(model, { maxNumSeqs: trajectories, maxModelLength: 400, tokenizer });

const lookUp = agents.defineTool({
  name: 'look_up',
  description: 'Answers with sixteen words',
  input: z.object({ at: z.number() }),
  execute: ({ at }) => words.slice(at % 100, (at % 100) + 16).join(' '),
});

agents.registerAgentLoop('three_turns', async (session) => {
  for (let turn = 1; ; turn++) {
    await session.generate({ maxTokens: tokensPerTurn, ignoreEos: true });
    if (turn === TURNS) return;
    const { response } = await session.callTool({ name: 'look_up', arguments: { at: turn } });
    session.append([{ role: 'tool', content: response }]);
  }
});
/** Filled in by the warm-up: the length of a three-turn response. */
let responseLength = TURNS * tokensPerTurn;
agents.registerAgentLoop('one_turn', async (session) => {
  await session.generate({ maxTokens: responseLength, ignoreEos: true });
});
agents.registerAgentLoop('one_turn_less', async (session) => {
  await session.generate({ maxTokens: TURNS * tokensPerTurn, ignoreEos: true });
});

async function measure(agentName, round) {
  const rows = Array.from({ length: trajectories }, (_, k) => ({
    agent_name: agentName,
    prompt: [{ role: 'user', content: words.slice((k * 7) % 180, ((k * 7) % 180) + 16).join(' ') }],
    sampling: { seed: round * 1000 + k },
  }));
  await engine.updateWeights(); // No prefixes of the round before.
  const [started, cpu] = [performance.now(), process.cpuUsage()];
  const batch = await agents.runAgents(rows, {
    engine,
    tokenizer,
    tools: [lookUp],
    config: { maxPromptLength: 64, responseLength: 320, maxConcurrentTrajectories: trajectories },
  });
  const seconds = (performance.now() - started) / 1000;
  const { user, system } = process.cpuUsage(cpu);
  const failed = batch.trajectories.find(({ endReason }) => !['stop', 'response_length'].includes(endReason));
  if (failed) throw new Error(`a trajectory ended with ${failed.endReason}: ${failed.error}`);
  const sampled = batch.trajectories.reduce(
    (sum, { responseMask }) => sum + responseMask.reduce((a, b) => a + b, 0),
    0,
  );
  return { seconds, cpuSeconds: (user + system) / 1e6, sampled, total: batch.metrics['state_tokens/total'] };
}

const median = (values) => values.sort((a, b) => a - b)[Math.floor(values.length / 2)];
const runs = { three_turns: [], one_turn: [], one_turn_less: [] };
for (let round = 0; round <= rounds; round++)
  for (const name of Object.keys(runs)) {
    const run = await measure(name, round);
    if (name === 'three_turns') responseLength = Math.round(run.total / trajectories);
    if (round > 0) runs[name].push(run); // The first round warms up.
  }
const medianOf = (name, key) => median(runs[name].map((run) => run[key]));
for (const [name, [{ sampled, total }]] of Object.entries(runs)) {
  const seconds = medianOf(name, 'seconds');
  console.log(
    `${name.padEnd(14)} ${seconds.toFixed(2)} s, ${medianOf(name, 'cpuSeconds').toFixed(2)} s of processor time; ` +
      `${sampled} tokens sampled, ${total - sampled} injected; ${Math.round(sampled / seconds)} tok/s`,
  );
}
const ratio = (name, key) => (medianOf('three_turns', key) / medianOf(name, key)).toFixed(2);
// On a machine with other work processor time is the figure to trust.
const against = (name) => `${ratio(name, 'seconds')}x time, ${ratio(name, 'cpuSeconds')}x processor time`;
console.log(`three turns against the same tokens in one turn: ${against('one_turn')} (goal: at most 1.3x)`);
console.log(`three turns against only the sampled tokens:     ${against('one_turn_less')}`);
await engine.close();
model.dispose();
await rm(folder, { recursive: true, force: true });
