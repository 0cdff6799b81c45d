import { UserError } from '../../config/index.js';

/**
 * Learning from pairs, `dpo` or `reward_model`: an answer that was preferred and one that was not. Set by options of
 * `verlet sft`, beside the keys of sft_trainer.yaml.
 */
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

export const PREFERENCE_DEFAULTS: Omit<PreferenceSettings, 'objective'> = {
  promptKey: 'prompt',
  chosenKey: 'chosen',
  rejectedKey: 'rejected',
  beta: 0.1,
  lossType: 'sigmoid',
  labelSmoothing: 0,
  sftCoefficient: 0,
  centerRewardsCoefficient: 0,
};

export function checkPreferenceSettings(settings: PreferenceSettings): void {
  const problems = [
    !(settings.beta > 0) && `beta must be above 0, got ${settings.beta}`,
    !(settings.labelSmoothing >= 0 && settings.labelSmoothing < 0.5) &&
      `label smoothing must be at least 0 and below 0.5, got ${settings.labelSmoothing}`,
    settings.labelSmoothing > 0 && settings.lossType !== 'sigmoid' && 'label smoothing goes with loss type sigmoid',
    settings.sftCoefficient < 0 && `the SFT coefficient must not be negative, got ${settings.sftCoefficient}`,
    settings.chosenKey === settings.rejectedKey && `chosen and rejected are the same column "${settings.chosenKey}"`,
  ].filter((problem): problem is string => typeof problem === 'string');
  if (problems.length > 0) throw new UserError(problems.join('; '), { exitCode: 2 });
}
