#!/usr/bin/env node
// From nothing to a model that learnt by reinforcement, on two CPU cores, in a minute. Any verl key may be given:
//   npm run quickstart -- algorithm.adv_estimator=gae trainer.total_training_steps=50
// --folder <path> puts everything elsewhere than runs/quickstart, --sft-steps <n> changes the model it starts from.
import path from 'node:path';
import { parseArgs } from 'node:util';
import { composeConfig, train } from 'verlet';
import { prepare } from './prepare.mjs';

const { values, positionals: overrides } = parseArgs({
  allowPositionals: true,
  options: { folder: { type: 'string', default: 'runs/quickstart' }, 'sft-steps': { type: 'string', default: '450' } },
});
const folder = path.resolve(values.folder);
const gae = overrides.some((word) => word === 'algorithm.adv_estimator=gae');

console.log('1/2  data, tokenizer and a tiny Qwen2 (0.8 M parameters) with a short SFT');
const files = await prepare(path.join(folder, 'start'), {
  sftSteps: Number(values['sft-steps']),
  onStep: (step, total, loss) => {
    if (process.stdout.isTTY) process.stdout.write(`\r     SFT step ${step}/${total}  loss ${loss.toFixed(3)}`);
    else if (step % 50 === 0) console.log(`     SFT step ${step}/${total}  loss ${loss.toFixed(3)}`);
  },
});
if (process.stdout.isTTY) console.log();

console.log(`2/2  ${gae ? 'PPO with a critic' : 'GRPO'} with the gsm8k reward`);
const { config } = composeConfig({
  kind: 'ppo',
  overrides: [
    `data.train_files=${files.train}`,
    `data.val_files=${files.test}`,
    `actor_rollout_ref.model.path=${files.model}`,
    'data.train_batch_size=32',
    'data.max_prompt_length=48',
    'data.max_response_length=24',
    'actor_rollout_ref.rollout.n=8',
    'actor_rollout_ref.actor.ppo_mini_batch_size=32',
    'actor_rollout_ref.actor.optim.lr=1e-4',
    'critic.optim.lr=3e-4',
    'algorithm.adv_estimator=grpo',
    // Held-out problems are answered as in training, with noise: greedy answers would hide half of what is learnt.
    'actor_rollout_ref.rollout.val_kwargs.do_sample=true',
    'actor_rollout_ref.rollout.val_kwargs.temperature=1',
    'trainer.total_training_steps=100',
    'trainer.test_freq=20',
    'trainer.save_freq=100',
    'trainer.resume_mode=disable',
    `trainer.default_local_dir=${path.join(folder, 'run')}`,
    'trainer.project_name=quickstart',
    ...overrides,
  ],
});
const result = await train({ config });
console.log(
  `\nThe trained model is in ${path.join(result.runFolder, `global_step_${result.globalStep}`, 'actor', 'huggingface')}`,
);
