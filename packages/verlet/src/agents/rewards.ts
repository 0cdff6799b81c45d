import type { AgentRow, Trajectory } from './types.js';

/** What a reward function says: one number, or several channels whose sum is the score. */
export type RewardValue = number | Record<string, number>;

/** Scores a finished trajectory, while others are still running. */
export type RewardFunction = (
  trajectory: Trajectory,
  row: AgentRow,
  signal: AbortSignal,
) => Promise<RewardValue> | RewardValue;

/** `turn`: rewards of turns where they were given; `trajectory`: the final score on the last token; `mixed`: both. */
export type RewardMode = 'turn' | 'trajectory' | 'mixed';

export interface RewardWeights {
  mode?: RewardMode;
  /** Per channel; 1 when a channel is not named. */
  channelWeights?: Record<string, number>;
}

/**
 * Rewards per response token. Turn rewards stand on the last token the model sampled before they were given, the
 * trajectory's rewards on its last sampled token: never on a token that is masked out.
 */
export function tokenLevelScores(
  trajectory: Trajectory,
  { mode = 'mixed', channelWeights = {} }: RewardWeights = {},
): number[] {
  const scores = new Array<number>(trajectory.responseIds.length).fill(0);
  const weightOf = (channel: string) => channelWeights[channel] ?? 1;
  if (mode !== 'trajectory') {
    for (const { channel, value, tokenIndex } of trajectory.turnRewards) {
      if (tokenIndex >= 0) scores[tokenIndex] = scores[tokenIndex]! + weightOf(channel) * value;
    }
  }
  const last = trajectory.responseMask.lastIndexOf(1);
  if (mode !== 'turn' && last >= 0) {
    for (const [channel, value] of Object.entries(trajectory.rewards))
      scores[last] = scores[last]! + weightOf(channel) * value;
  }
  return scores;
}

/** What the rewards of a trajectory come to, also where the model said nothing and there is no token to put them on. */
export function totalScore(
  { turnRewards, rewards }: Pick<Trajectory, 'turnRewards' | 'rewards'>,
  { mode = 'mixed', channelWeights = {} }: RewardWeights = {},
): number {
  const weighed = (channel: string, value: number) => (channelWeights[channel] ?? 1) * value;
  const ofTurns = mode === 'trajectory' ? [] : turnRewards.map(({ channel, value }) => weighed(channel, value));
  const ofAll = mode === 'turn' ? [] : Object.entries(rewards).map(([channel, value]) => weighed(channel, value));
  return [...ofTurns, ...ofAll].reduce((sum, value) => sum + value, 0);
}

/** All channels of a trajectory, kept apart: turn rewards summed over turns, trajectory rewards as they are. */
export function rewardChannels(trajectory: Trajectory): Record<string, number> {
  const channels: Record<string, number> = {};
  for (const { channel, value } of trajectory.turnRewards)
    channels[`turn/${channel}`] = (channels[`turn/${channel}`] ?? 0) + value;
  for (const [channel, value] of Object.entries(trajectory.rewards)) channels[`trajectory/${channel}`] = value;
  return channels;
}

/** Puts a reward function's answer into the trajectory. Refuses what is not a number: NaN would poison the whole batch. */
export function applyReward(trajectory: Trajectory, value: RewardValue): void {
  if (typeof value !== 'number' && (typeof value !== 'object' || value === null)) {
    throw new TypeError(`the reward is ${String(value)}; it must be a number or an object of numbers`);
  }
  const channels = typeof value === 'number' ? { score: value } : value;
  for (const [channel, entry] of Object.entries(channels)) {
    if (typeof entry !== 'number' || !Number.isFinite(entry)) {
      throw new TypeError(
        `the reward function gave ${String(entry)} for ${JSON.stringify(channel)}; it must give finite numbers`,
      );
    }
  }
  Object.assign(trajectory.rewards, channels);
  trajectory.rewardScore = Object.values(trajectory.rewards).reduce((sum, entry) => sum + entry, 0);
}
