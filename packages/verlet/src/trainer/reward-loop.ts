/** Station H: finished trajectories to scores on their last tokens. */

import { type Tensor, tensor } from '@verlet/torch';
import { type AgentRow, type Trajectory, tokenLevelScores, totalScore } from '../agents/index.js';
import { UserError } from '../config/index.js';
import type { DataProto } from '../protocol/index.js';
import {
  createRewardInput,
  type RewardInput,
  type RewardManager,
  rewardMetrics,
  type ScoredSample,
} from '../rewards/index.js';
import { EarlyScores } from './early-scores.js';
import type { ActorGroup } from './ppo.js';
import { type ChannelOptions, channelMetrics, channelsOf, ownSample, withSample } from './reward-channels.js';
import { decidingRows } from './rollouts.js';
import { type StepTimer, takeMetrics } from './step-timer.js';

export interface ScoredBatch {
  /** [rows, responseWidth] float32 */
  scores: Tensor;
  /** Per row what its scores add up to; what was given to a row without a sampled token is only here. */
  totals: number[];
  metrics: Record<string, number>;
  samples: ScoredSample[];
}

/** What a reward wants to see beyond the text. Log-probs and entropy cost a pass over the batch before it is scored. */
export interface RewardNeeds {
  logProbs: boolean;
  entropy: boolean;
  refLogProb: boolean;
}

/** Reads the words of a reward file's `REWARD_NEEDS`: log_probs, entropy, ref_log_prob. */
export function rewardNeeds(words: readonly string[] = []): RewardNeeds {
  return {
    logProbs: words.includes('log_probs'),
    entropy: words.includes('entropy'),
    refLogProb: words.includes('ref_log_prob'),
  };
}

/** The reward looks at the policy's own numbers: they come from the scoring pass, never from sampling. */
export async function addNeeded(
  actor: ActorGroup,
  batch: DataProto,
  needs: RewardNeeds,
  timer?: StepTimer,
): Promise<Record<string, number>> {
  const metrics: Record<string, number> = {};
  const add = async (name: string, work: () => Promise<DataProto>): Promise<void> => {
    const output = await (timer?.time(name, work) ?? work());
    Object.assign(metrics, takeMetrics(output));
    batch.union(output);
  };
  if (needs.logProbs || needs.entropy) await add('old_log_prob', () => actor.computeLogProb(batch));
  if (needs.refLogProb) await add('ref', () => actor.computeRefLogProb(batch));
  return metrics;
}

export class RewardLoop {
  private readonly early: EarlyScores;

  constructor(
    private readonly manager: RewardManager,
    private readonly decode: (ids: ArrayLike<number>) => string,
    readonly needs: RewardNeeds = rewardNeeds(),
    private readonly channels: ChannelOptions = {},
  ) {
    this.early = new EarlyScores(manager);
  }

  /** Called when a trajectory has ended: its score is computed while others still generate, where the manager allows it. */
  start(trajectory: Trajectory, row: AgentRow): void {
    const needsPass = Object.values(this.needs).some(Boolean);
    if (needsPass || !this.early.isPossible || ownSample(trajectory, this.channels)) return;
    this.early.start(trajectory.id, this.input(trajectory, row, [], 0));
  }

  async score(batch: DataProto): Promise<ScoredBatch> {
    const trajectories = batch.column<Trajectory>('trajectory');
    const rows = batch.column<AgentRow>('agent_row');
    const responseWidth = batch.tensor('responses').size(1);
    const readable = this.perToken(batch);
    const own = trajectories.map((trajectory) => ownSample(trajectory, this.channels));
    const early = await Promise.all(trajectories.map(({ id }) => this.early.take(id)));
    const asked = trajectories.flatMap((trajectory, k) =>
      own[k] || early[k] ? [] : this.input(trajectory, rows[k]!, readable, k),
    );
    const answers = asked.length > 0 ? await this.manager.score(asked) : [];
    const samples = own.map((sample, k) => sample ?? early[k] ?? answers.shift()!);
    // One failing reward is a mishap that is counted; when all fail, the function is broken and zeros would be learnt from.
    if (samples.length > 1 && samples.every((sample) => sample.error !== undefined))
      throw new UserError(
        `the reward could not be computed for any of ${samples.length} samples: ${samples[0]!.error}`,
      );
    const scores = new Float32Array(trajectories.length * responseWidth);
    const totals: number[] = [];
    const channels = samples.map((sample, row) => {
      const trajectory = withSample(trajectories[row]!, sample, own[row] !== null);
      // Scores stand on tokens that the model itself produced: others have no gradient.
      const perToken = tokenLevelScores(trajectory, this.channels);
      for (let k = 0; k < perToken.length; k++)
        if (perToken[k] !== 0) scores[row * responseWidth + Math.min(k, responseWidth - 1)]! += perToken[k]!;
      totals.push(totalScore(trajectory, this.channels));
      const { score: _, ...others } = channelsOf(trajectory);
      sample.extras = { ...others, ...sample.extras };
      return channelsOf(trajectory);
    });
    batch.setColumn(
      'reward_extra_info',
      samples.map((sample) => sample.extras),
    );
    const counted = [...new Set(decidingRows(batch))];
    return {
      scores: tensor(scores, { shape: [trajectories.length, responseWidth] }),
      metrics: {
        ...rewardMetrics(counted.map((row) => samples[row]!)),
        ...channelMetrics(counted.map((row) => channels[row]!)),
      },
      totals,
      samples,
    };
  }

  /** Columns of the batch that rewards may read, by their name there. */
  private perToken(batch: DataProto): { name: string; values: Float32Array; width: number }[] {
    const columns = { old_log_probs: 'log_probs', entropys: 'entropy', ref_log_prob: 'ref_log_prob' };
    return Object.entries(columns).flatMap(([key, name]) => {
      const values = batch.batch.get(key);
      return values ? [{ name, values: values.toFloat32Array(), width: values.size(1) }] : [];
    });
  }

  private input(
    trajectory: Trajectory,
    row: AgentRow,
    perToken: ReturnType<RewardLoop['perToken']>,
    index: number,
  ): RewardInput {
    const length = trajectory.responseIds.length;
    const fields = {
      ...row,
      data_source: String(row.data_source ?? ''),
      ground_truth: row.reward_model?.ground_truth,
      extra_info: { ...row.extra_info, num_turns: trajectory.numTurns },
      prompt: row.prompt,
      messages: trajectory.messages,
      prompt_ids: trajectory.promptIds,
      response_ids: trajectory.responseIds,
      response_mask: trajectory.responseMask,
      rollout_log_probs: trajectory.rolloutLogProbs,
      num_turns: trajectory.numTurns,
      turn_scores: trajectory.turnRewards
        .filter(({ tokenIndex }) => tokenIndex >= 0)
        .map(({ tokenIndex, value }) => ({ tokenPosition: tokenIndex, score: value })),
      uid: trajectory.uid,
      ...Object.fromEntries(
        perToken.map(({ name, values, width }) => [
          name,
          values.subarray(index * width, index * width + Math.min(length, width)),
        ]),
      ),
      solution_str: '',
    };
    return createRewardInput(fields as never, { solution_str: () => this.decode(trajectory.responseIds) });
  }
}
