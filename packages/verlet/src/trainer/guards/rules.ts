/** When a run should be looked at, and what to try. A rule reads metrics only, so a resumed run can be brought up to date. */
import { short } from '../trackers/words.js';

export type Metrics = Readonly<Record<string, number>>;

export interface Rule {
  name: string;
  /** Steps in a row before the warning comes. */
  patience: number;
  /** The warning, or null when all is well. `start` holds the means of the first steps. */
  check(metrics: Metrics, start: Metrics): string | null;
}

/** Against the means of the first steps; undefined when either is missing. */
function ratio(name: string, metrics: Metrics, start: Metrics): number | undefined {
  const [now, before] = [metrics[name], start[name]];
  return now === undefined || before === undefined || before <= 0 ? undefined : now / before;
}

const percent = (part: number): string => `${Math.round(part * 100)}%`;

export const RULES: readonly Rule[] = [
  {
    name: 'constant_reward_groups',
    patience: 5,
    check(metrics) {
      const share = metrics['guard/constant_reward_groups'];
      if (share === undefined || share < 0.9) return null;
      const score = metrics['critic/score/mean'] ?? 0;
      const [low, high] = [metrics['critic/score/min'] ?? 0, metrics['critic/score/max'] ?? 0];
      const solved = high > low && score > (low + high) / 2;
      return `in ${percent(share)} of the groups every sample got the same score (mean ${short(score)}), so they teach nothing. Try ${
        solved ? 'harder prompts' : 'easier prompts, or a reward that gives part of the points'
      }, a larger actor_rollout_ref.rollout.n, a higher actor_rollout_ref.rollout.temperature, or algorithm.filter_groups.enable=true`;
    },
  },
  {
    name: 'entropy_collapse',
    patience: 3,
    check(metrics, start) {
      const part = ratio('actor/entropy', metrics, start);
      if (part === undefined || part > 0.05) return null;
      return `the policy's entropy is ${short(metrics['actor/entropy']!)}, ${percent(part)} of what it was at the start: it hardly explores any more. If validation does not say that it is done, try a smaller actor_rollout_ref.actor.optim.lr, actor_rollout_ref.actor.clip_ratio_high=0.28, actor_rollout_ref.actor.entropy_coeff=0.001 or actor_rollout_ref.actor.use_kl_loss=true, from an earlier checkpoint`;
    },
  },
  {
    name: 'length_drift',
    patience: 3,
    check(metrics, start) {
      const times = ratio('response_length/mean', metrics, start);
      if (times === undefined || (times < 2 && times > 0.5)) return null;
      const length = `responses have ${short(metrics['response_length/mean']!)} tokens on average, ${times >= 2 ? `${times.toFixed(1)} times` : percent(times)} ${times >= 2 ? 'as many as' : 'of what they had'} at the start`;
      return times >= 2
        ? `${length}. Look at some (trainer.rollout_data_dir); if they ramble, try algorithm.norm_adv_by_std_in_grpo=false with actor_rollout_ref.actor.loss_agg_mode=token-mean, or an overlong penalty in the reward`
        : `${length}. Look at some (trainer.rollout_data_dir); if the reward is earned without an answer, mend the reward`;
    },
  },
  {
    name: 'cut_off',
    patience: 3,
    check(metrics) {
      const share = metrics['response_length/clip_ratio'];
      if (share === undefined || share < 0.5) return null;
      return `${percent(share)} of the responses are as long as they may be, so most were cut off before they ended. Try a larger data.max_response_length, or look whether the model ends its answers at all`;
    },
  },
  {
    name: 'repetition',
    patience: 3,
    check(metrics, start) {
      const share = metrics['guard/repetition'];
      if (share === undefined || share < 0.4 || share < (start['guard/repetition'] ?? 0) + 0.15) return null;
      return `${percent(share)} of the responses' 4-grams are repetitions: the policy loops. Try an earlier checkpoint with a smaller actor_rollout_ref.actor.optim.lr, actor_rollout_ref.actor.use_kl_loss=true, or a reward that does not pay for length`;
    },
  },
];
