import type { Command } from 'commander';
import { batchPlan, renderBatchPlan } from '../../config/index.js';
import { distill } from '../../trainer/distill/index.js';
import { train } from '../../trainer/train.js';
import { type CommandInvocation, type CommandModule, EXIT } from '../command.js';
import { addConfigOptions, configFromCommandLine } from '../config-options.js';
import { explained } from '../worker-failure.js';

export const command: CommandModule = {
  name: 'train',
  summary: 'Train a policy with reinforcement learning (PPO, GRPO and their relatives)',

  configure(command: Command) {
    addConfigOptions(command).addHelpText(
      'after',
      `
Examples:
  verlet train data.train_files=train.parquet actor_rollout_ref.model.path=./model algorithm.adv_estimator=grpo \\
               actor_rollout_ref.rollout.n=8 custom_reward_function.path=./reward.ts
  verlet train --config run.yaml trainer.total_epochs=3
  verlet train --config run.yaml --dry-run             what would run, and who set what
  verlet train --config run.yaml distillation.enabled=true +distillation.teacher_models.big.model_path=./teacher

\`verlet config --template > run.yaml\` writes a file with every key and what it means.

Ctrl-C finishes the step, saves and stops (again: stops at once); the same command goes on from there.`,
    );
  },

  async run(invocation: CommandInvocation) {
    const composed = await configFromCommandLine('ppo', invocation);
    if (composed === null) return 0;
    const { io, signal } = invocation;
    io.note(renderBatchPlan(batchPlan(composed.config)));
    const run = composed.config.distillation.enabled ? distill : train;
    const result = await run({ config: composed.config, signal }).catch((error: unknown) => {
      throw explained(error, composed.config.trainer.default_local_dir);
    });
    if (result.interrupted) io.note(`stopped after step ${result.globalStep}; run the same command again to go on`);
    io.note(`run folder: ${result.runFolder}`);
    return result.interrupted ? EXIT.interrupted : EXIT.ok;
  },
};
