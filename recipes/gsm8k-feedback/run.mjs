#!/usr/bin/env node
// GSM8K with feedback: the conversation goes on until the answer is right, and the reward is given to the turn that was.
import path from 'node:path';
import { train } from 'verlet';
import { configFor, progress } from '../run-options.mjs';
import { prepare } from './prepare.mjs';

export const settings = [
  'data.train_batch_size=16',
  'data.max_prompt_length=32',
  'data.max_response_length=96',
  'actor_rollout_ref.rollout.n=8',
  'actor_rollout_ref.rollout.multi_turn.enable=true',
  'actor_rollout_ref.rollout.multi_turn.max_assistant_turns=2',
  'actor_rollout_ref.actor.ppo_mini_batch_size=16',
  'actor_rollout_ref.actor.optim.lr=1e-3',
  'algorithm.adv_estimator=grpo',
  // Only what the interaction says counts; without this the final score of gsm8k would be added to it.
  'reward_model.reward_mode=turn',
  'trainer.total_training_steps=30',
  'trainer.test_freq=10',
  'trainer.save_freq=30',
];

if (import.meta.filename === process.argv[1]) {
  const folder = path.resolve('runs/gsm8k-feedback');
  console.log('1/2  data, tokenizer and a tiny Qwen2 that can add and is careless');
  const files = await prepare(path.join(folder, 'start'), { onStep: progress() });
  console.log('2/2  GRPO with feedback');
  const config = configFor(files, path.join(folder, 'run'), [...settings, ...process.argv.slice(2)]);
  const { metrics } = await train({ config });
  console.log(`turns per conversation: ${metrics['num_turns/mean'].toFixed(2)}`);
}
