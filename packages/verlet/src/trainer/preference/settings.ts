import { type SftConfig, UserError } from '../../config/index.js';

/** Learning from pairs: an answer that was preferred and one that was not. */
export interface PreferenceSettings {
  objective: 'dpo' | 'reward_model';
  /** Column with the prompt: chat messages or a text. Rows without it hold whole conversations. */
  promptKey: string;
  chosenKey: string;
  rejectedKey: string;
  /** DPO: how closely the policy is held to the reference. */
  beta: number;
  /** sigmoid is DPO, hinge SLiC, ipo the squared form. */
  lossType: 'sigmoid' | 'hinge' | 'ipo';
  /** DPO: the share of pairs taken to be the wrong way round. */
  labelSmoothing: number;
  /** DPO: weight of the likelihood of the chosen answer. */
  sftCoefficient: number;
  /** Reward model: weight of (chosen + rejected)^2, which keeps scores around zero. */
  centerRewardsCoefficient: number;
}

/** The `objective` block of a configuration. */
export function preferenceSettings({ objective }: SftConfig): PreferenceSettings {
  if (objective.name === 'sft')
    throw new UserError('objective.name=sft learns no pairs; set objective.name=dpo or objective.name=reward_model', {
      exitCode: 2,
    });
  const settings: PreferenceSettings = {
    objective: objective.name,
    promptKey: objective.prompt_key,
    chosenKey: objective.chosen_key,
    rejectedKey: objective.rejected_key,
    beta: objective.beta,
    lossType: objective.loss_type,
    labelSmoothing: objective.label_smoothing,
    sftCoefficient: objective.sft_coef,
    centerRewardsCoefficient: objective.center_rewards_coef,
  };
  const { labelSmoothing, lossType, chosenKey, rejectedKey } = settings;
  const problems = [
    labelSmoothing > 0 &&
      lossType !== 'sigmoid' &&
      `objective.label_smoothing=${labelSmoothing} goes with objective.loss_type=sigmoid, not ${lossType}`,
    chosenKey === rejectedKey && `objective.chosen_key and objective.rejected_key are the same column "${chosenKey}"`,
  ].filter((problem): problem is string => typeof problem === 'string');
  if (problems.length > 0) throw new UserError(problems.join('; '), { exitCode: 2 });
  return settings;
}
