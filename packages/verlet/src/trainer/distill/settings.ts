/** What `distillation.*` asks of the other parts of a run. */
import { isTopKDivergence, TOP_K_DIVERGENCES } from '../../algorithms/index.js';
import { type PpoConfig, UserError } from '../../config/index.js';

type LossSettings = PpoConfig['distillation']['distillation_loss'];

const ESTIMATORS = ['kl', 'k1', 'abs', 'mse', 'k2', 'low_var_kl', 'k3'];

export function checkDistillation(config: PpoConfig): void {
  const { distillation, actor_rollout_ref: policy } = config;
  const loss: LossSettings = distillation.distillation_loss;
  const refuse = (message: string): never => {
    throw new UserError(message, { exitCode: 2 });
  };
  const isTopK = isTopKDivergence(loss.loss_mode);
  if (!isTopK && !ESTIMATORS.includes(loss.loss_mode.replace(/\+$/, '')))
    refuse(
      `distillation.distillation_loss.loss_mode=${loss.loss_mode}: there are ${TOP_K_DIVERGENCES.join(', ')} and the ` +
        `estimators ${ESTIMATORS.join(', ')} (each also with '+')`,
    );
  if (isTopK && loss.use_policy_gradient)
    refuse(
      `distillation.distillation_loss.loss_mode=${loss.loss_mode} is a loss, not a reward of tokens; set ` +
        'use_policy_gradient=false, or take an estimator such as k1',
    );
  if (policy.actor.use_kl_loss)
    refuse('distillation takes the place of the KL loss; set actor_rollout_ref.actor.use_kl_loss=false');
  if (config.algorithm.use_kl_in_reward)
    refuse('distillation takes the place of the KL in the reward; set algorithm.use_kl_in_reward=false');
  if (loss.loss_max_clamp !== null && !loss.use_policy_gradient && !isTopK)
    refuse(
      'distillation.distillation_loss.loss_max_clamp works with use_policy_gradient=true or a top-k loss_mode only',
    );
}

/**
 * The configuration under which the usual trainer distils. As a loss, the divergence to the teacher is the actor's KL loss with
 * the teacher as its reference, or over the teacher's likeliest tokens a loss of its own; as a reward, it becomes the advantages.
 */
export function distillingConfig(config: PpoConfig): PpoConfig {
  const { distillation_loss: loss } = config.distillation;
  const { actor } = config.actor_rollout_ref;
  return {
    ...config,
    // Without rewards of the task nothing is estimated, and a critic would have nothing to learn.
    algorithm: loss.use_task_rewards ? config.algorithm : { ...config.algorithm, adv_estimator: 'grpo' },
    actor_rollout_ref: {
      ...config.actor_rollout_ref,
      actor: loss.use_policy_gradient
        ? {
            ...actor,
            clip_ratio: loss.clip_ratio,
            clip_ratio_low: loss.clip_ratio_low,
            clip_ratio_high: loss.clip_ratio_high,
            policy_loss: { ...actor.policy_loss, loss_mode: loss.policy_loss_mode },
          }
        : isTopKDivergence(loss.loss_mode)
          ? actor
          : {
              ...actor,
              use_kl_loss: true,
              kl_loss_coef: loss.distillation_loss_coef,
              kl_loss_type: loss.loss_mode as typeof actor.kl_loss_type,
            },
    },
  };
}
