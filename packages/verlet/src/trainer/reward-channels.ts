/** Rewards of one trajectory from several mouths (reward function, program, tools, interactions, tasks), kept apart by channel. */
import type { RewardWeights, Trajectory } from '../agents/index.js';
import type { ScoredSample } from '../rewards/index.js';

export interface ChannelOptions extends RewardWeights {
  /** Ask the reward function also about trajectories that their program, loop or task has scored already. */
  scoreAll?: boolean;
}

/**
 * The sample of a trajectory about which the reward function is not asked: its program, loop or task gave the reward, or
 * failed to, or only rewards of turns count.
 */
export function ownSample(trajectory: Trajectory, { mode, scoreAll }: ChannelOptions): ScoredSample | null {
  const sample = { score: 0, extras: {}, tokenPosition: trajectory.responseMask.lastIndexOf(1) };
  if (trajectory.rewardError !== undefined) return { ...sample, error: trajectory.rewardError };
  if (scoreAll) return null;
  const hasOwn = Object.keys(trajectory.rewards).length > 0;
  return hasOwn || mode === 'turn' ? sample : null;
}

/** The trajectory with the reward function's score as one more channel, named `score` unless that is taken. */
export function withSample(trajectory: Trajectory, sample: ScoredSample, isOwn: boolean): Trajectory {
  const { rewards } = trajectory;
  const name = 'score' in rewards ? 'reward_function' : 'score';
  return {
    ...trajectory,
    rewards: isOwn ? rewards : { ...rewards, [name]: sample.score },
    // A manager that weighs turns (hybrid) was given them and answers for them.
    turnRewards: sample.turnScores
      ? sample.turnScores.map(({ tokenPosition, score }) => ({
          channel: 'turns',
          turn: 0,
          value: score,
          tokenIndex: tokenPosition,
        }))
      : trajectory.turnRewards,
  };
}

/** Channels by name, those of turns summed over the turns. */
export function channelsOf({ rewards, turnRewards }: Trajectory): Record<string, number> {
  const channels: Record<string, number> = { ...rewards };
  for (const { channel, value } of turnRewards) channels[channel] = (channels[channel] ?? 0) + value;
  return channels;
}

/** `reward/CHANNEL`: the mean over rollouts of what that channel gave; one without it counts as 0, so that they add up. */
export function channelMetrics(channels: readonly Readonly<Record<string, number>>[]): Record<string, number> {
  const metrics: Record<string, number> = {};
  for (const row of channels)
    for (const [channel, value] of Object.entries(row)) {
      const name = `reward/${channel}`;
      metrics[name] = (metrics[name] ?? 0) + value / channels.length;
    }
  return metrics;
}
