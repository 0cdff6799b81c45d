/**
 * On-policy distillation: the student samples, a teacher says how likely it finds every token, and the student is moved towards
 * it. The loop, rewards, validation, checkpoints and metrics are the trainer's; only what the reference is has changed.
 */
import { defaultComputeScore, knownDataSources, type RewardFunction } from '../../rewards/index.js';
import { runTraining, type TrainOptions, type TrainResult } from '../train.js';
import { DistilledActor } from './distilled-actor.js';
import { checkDistillation, distillingConfig } from './settings.js';
import { Teachers } from './teachers.js';

export async function distill(options: TrainOptions): Promise<TrainResult> {
  checkDistillation(options.config);
  return runTraining(options, {
    config: distillingConfig(options.config),
    reward: rewardWithoutTask(options),
    // The teachers are the reference.
    useReference: false,
    async openPolicy(config, tokenizer) {
      const teachers = await Teachers.open(config, tokenizer);
      return { around: (student) => new DistilledActor(student, teachers, config), close: () => teachers.dispose() };
    },
    watchesScores: options.config.distillation.distillation_loss.use_task_rewards,
  });
}

/** Where rewards do not count, rows need no ground truth: those that have a score show it, the others show 0. */
function rewardWithoutTask({ config }: TrainOptions): RewardFunction | undefined {
  if (config.distillation.distillation_loss.use_task_rewards || config.custom_reward_function.path) return undefined;
  const known = knownDataSources();
  const isKnown = (source: string): boolean =>
    known.some((name) => (name.endsWith('*') ? source.startsWith(name.slice(0, -1)) : name === source));
  return (input, kwargs) =>
    isKnown(input.data_source) && input.ground_truth !== undefined ? defaultComputeScore(input, kwargs) : 0;
}
