/** Station H: finished trajectories to scores on their last tokens. */
import { type Tensor, tensor } from '@verlet/torch';
import type { AgentRow, Trajectory } from '../agents/index.js';
import type { DataProto } from '../protocol/index.js';
import {
  createRewardInput,
  type RewardInput,
  type RewardManager,
  rewardMetrics,
  type ScoredSample,
} from '../rewards/index.js';

export interface ScoredBatch {
  /** [rows, responseWidth] float32 */
  scores: Tensor;
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

export class RewardLoop {
  constructor(
    private readonly manager: RewardManager,
    private readonly decode: (ids: ArrayLike<number>) => string,
    readonly needs: RewardNeeds = rewardNeeds(),
  ) {}

  async score(batch: DataProto): Promise<ScoredBatch> {
    const trajectories = batch.column<Trajectory>('trajectory');
    const rows = batch.column<AgentRow>('agent_row');
    const responseWidth = batch.tensor('responses').size(1);
    const perToken = this.perToken(batch);
    const samples = await this.manager.score(
      trajectories.map((trajectory, k) => this.input(trajectory, rows[k]!, perToken, k)),
    );
    const scores = new Float32Array(trajectories.length * responseWidth);
    for (const [row, sample] of samples.entries()) {
      const trajectory = trajectories[row]!;
      const put = (position: number, value: number): void => {
        if (position >= 0) scores[row * responseWidth + Math.min(position, responseWidth - 1)]! += value;
      };
      // The score belongs to the last token that the model itself produced: others have no gradient.
      put(trajectory.responseMask.lastIndexOf(1), sample.score);
      for (const turn of sample.turnScores ?? []) put(turn.tokenPosition, turn.score);
      for (const turn of trajectory.turnRewards) put(turn.tokenIndex, turn.value);
    }
    batch.setColumn(
      'reward_extra_info',
      samples.map((sample) => sample.extras),
    );
    return {
      scores: tensor(scores, { shape: [trajectories.length, responseWidth] }),
      metrics: rewardMetrics(samples),
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
