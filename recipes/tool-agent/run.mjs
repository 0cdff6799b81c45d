#!/usr/bin/env node
// A tiny model learns to use a calculator. Any key of the configuration may be given behind the command.
import path from 'node:path';
import { agents, train } from 'verlet';
import { z } from 'zod';
import { configFor, progress } from '../run-options.mjs';
import { prepare } from './prepare.mjs';

/** `7*8` → 56; everything else is refused, and the model is told so. */
export const calculator = agents.defineTool({
  name: 'calculator',
  description: 'Multiplies two whole numbers.',
  input: z.object({ expression: z.string().regex(/^\d{1,6}\*\d{1,6}$/, 'write it as 12*34') }),
  execute: ({ expression }) => expression.split('*').reduce((product, factor) => product * Number(factor), 1),
});

export const settings = [
  'data.train_batch_size=16',
  'data.max_prompt_length=24',
  'data.max_response_length=64',
  'actor_rollout_ref.rollout.n=8',
  'actor_rollout_ref.rollout.multi_turn.enable=true',
  'actor_rollout_ref.rollout.multi_turn.max_assistant_turns=3',
  'actor_rollout_ref.actor.ppo_mini_batch_size=16',
  'actor_rollout_ref.actor.optim.lr=1e-3',
  'algorithm.adv_estimator=grpo',
  'trainer.total_training_steps=30',
  'trainer.test_freq=10',
  'trainer.save_freq=30',
];

if (import.meta.filename === process.argv[1]) {
  const folder = path.resolve('runs/tool-agent');
  console.log('1/2  data, tokenizer and a tiny Qwen2 that has seen the tool in one of five conversations');
  const files = await prepare(path.join(folder, 'start'), { onStep: progress() });
  console.log('2/2  GRPO with the calculator');
  const config = configFor(files, path.join(folder, 'run'), [...settings, ...process.argv.slice(2)]);
  const { metrics } = await train({ config, tools: [calculator] });
  console.log(`tool calls per trajectory: ${metrics['agent/tool_calls_per_trajectory/mean'].toFixed(2)}`);
}
