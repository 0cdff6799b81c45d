import type { z } from 'zod';
import { evaluationSchema, generationSchema } from './generation.js';
import { ppoSchema } from './ppo.js';
import { sftSchema } from './sft.js';

/** The four trees. Everything else in this folder is a block of one of them. */
export const schemas = {
  ppo: ppoSchema,
  sft: sftSchema,
  generation: generationSchema,
  evaluation: evaluationSchema,
} as const;

export type ConfigKind = keyof typeof schemas;
export type PpoConfig = z.infer<typeof ppoSchema>;
export type SftConfig = z.infer<typeof sftSchema>;
export type GenerationConfig = z.infer<typeof generationSchema>;
export type EvaluationConfig = z.infer<typeof evaluationSchema>;

export type ActorConfig = PpoConfig['actor_rollout_ref']['actor'];
export type ModelConfig = PpoConfig['actor_rollout_ref']['model'];
export type RefConfig = PpoConfig['actor_rollout_ref']['ref'];
export type RolloutConfig = PpoConfig['actor_rollout_ref']['rollout'];
export type CriticConfig = PpoConfig['critic'];
export type DataConfig = PpoConfig['data'];
export type RewardModelConfig = PpoConfig['reward_model'];
export type AlgorithmConfig = PpoConfig['algorithm'];
export type TrainerConfig = PpoConfig['trainer'];
export type OptimizerConfig = ActorConfig['optim'];

export type ConfigOf<K extends ConfigKind> = z.infer<(typeof schemas)[K]>;

export { KL_ESTIMATORS, POLICY_LOSSES } from './actor.js';
export { ADVANTAGE_ESTIMATORS } from './algorithm.js';
export { LOSS_AGGREGATIONS } from './parts.js';
export { REWARD_MANAGERS } from './reward.js';
export { LOGGERS } from './trainer.js';
