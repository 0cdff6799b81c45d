#!/usr/bin/env node
// What turns cost: 256 trajectories of three turns at once, beside the same tokens in one turn.
//   node bench/agents.mjs [trajectories] [tokens per turn] [rounds]
// Ratios are time of three turns / time of one turn: 1 means that turns are free, below 1 that three turns are faster.
// - `one_turn` reads and samples exactly as many tokens: what tools answered between the turns stands in its prompt. Template
//   rendering, tool calls, taking a prefix up again and the event loop are in the first and not in the second.
// - `one_turn_all_sampled` samples as many tokens as the three turns have in all, tool answers included.
// - `one_turn_unread` samples as many and reads no tool answers: less work, so a ratio above 1 is no overhead.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { manualSeed } from '@verlet/torch';
import { agents, closedVocabulary, createCausalLM, RolloutEngine } from 'verlet';
import { z } from 'zod';
import { turnTemplate } from '../recipes/tiny-model.mjs';
import { median } from './timing.mjs';

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
/** Filled in by the warm-up: tokens that tools and templates added to a trajectory. */
let injected = 0;
const sampleOnce = (tokens) => async (session) => {
  await session.generate({ maxTokens: tokens(), ignoreEos: true });
};
agents.registerAgentLoop(
  'one_turn',
  sampleOnce(() => TURNS * tokensPerTurn),
);
agents.registerAgentLoop(
  'one_turn_all_sampled',
  sampleOnce(() => TURNS * tokensPerTurn + injected),
);
agents.registerAgentLoop(
  'one_turn_unread',
  sampleOnce(() => TURNS * tokensPerTurn),
);

/** Words that differ from row to row, a token each. */
const text = (start, count) => Array.from({ length: count }, (_, k) => words[(start + k) % words.length]).join(' ');

async function measure(agentName, round) {
  const rows = Array.from({ length: trajectories }, (_, k) => ({
    agent_name: agentName,
    prompt: [{ role: 'user', content: text(k * 7, 16 + (agentName === 'one_turn' ? injected : 0)) }],
    sampling: { seed: round * 1000 + k },
  }));
  await engine.updateWeights(); // No prefixes of the round before.
  const [started, cpu] = [performance.now(), process.cpuUsage()];
  const batch = await agents.runAgents(rows, {
    engine,
    tokenizer,
    tools: [lookUp],
    config: { maxPromptLength: 256, responseLength: 320, maxConcurrentTrajectories: trajectories },
  });
  const seconds = (performance.now() - started) / 1000;
  const { user, system } = process.cpuUsage(cpu);
  const failed = batch.trajectories.find(({ endReason }) => !['stop', 'response_length'].includes(endReason));
  if (failed) throw new Error(`a trajectory ended with ${failed.endReason}: ${failed.error}`);
  const sampled = batch.trajectories.reduce(
    (sum, { responseMask }) => sum + responseMask.reduce((a, b) => a + b, 0),
    0,
  );
  const prompts = batch.trajectories.reduce((sum, { promptIds }) => sum + promptIds.length, 0);
  const read = prompts + batch.metrics['state_tokens/total'] - sampled;
  return { seconds, cpuSeconds: (user + system) / 1e6, sampled, read, prompts };
}

const runs = { three_turns: [], one_turn: [], one_turn_all_sampled: [], one_turn_unread: [] };
for (let round = 0; round <= rounds; round++)
  for (const name of Object.keys(runs)) {
    const run = await measure(name, round);
    if (name === 'three_turns') injected = Math.round((run.read - run.prompts) / trajectories);
    if (round > 0) runs[name].push(run); // The first round warms up.
  }
const medianOf = (name, key) => median(runs[name].map((run) => run[key]));
for (const [name, [{ sampled, read }]] of Object.entries(runs)) {
  const seconds = medianOf(name, 'seconds');
  console.log(
    `${name.padEnd(21)} ${seconds.toFixed(2)} s, ${medianOf(name, 'cpuSeconds').toFixed(2)} s of processor time; ` +
      `${sampled} tokens sampled, ${read} read; ${Math.round(sampled / seconds)} sampled/s`,
  );
}
const ratio = (name, key) => (medianOf('three_turns', key) / medianOf(name, key)).toFixed(2);
// On a machine with other work processor time is the figure to trust.
const against = (name) => `${ratio(name, 'seconds')} of the time, ${ratio(name, 'cpuSeconds')} of the processor time`;
console.log('\nthree turns / one turn (below 1: three turns are faster)');
console.log(`  the same tokens sampled and read       ${against('one_turn')}   goal: at most 1.3`);
console.log(`  the same tokens, all of them sampled   ${against('one_turn_all_sampled')}`);
console.log(`  the same tokens sampled, none read     ${against('one_turn_unread')}   less work on the right`);
await engine.close();
model.dispose();
await rm(folder, { recursive: true, force: true });
