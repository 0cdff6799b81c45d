import type { RewardInput, RewardManager, ScoredSample, TurnScore } from '../types.js';
import { applyErrorPolicy, type ErrorPolicy, failed } from './outcome.js';

export interface Turn {
  /** Index of the first and the last token that the model produced in this turn. */
  readonly start: number;
  readonly end: number;
}

/** The model's turns: maximal runs of 1 in the response mask. */
export function turnsOf(responseMask: ArrayLike<number>): Turn[] {
  const turns: Turn[] = [];
  for (let at = 0; at < responseMask.length; at++) {
    if (!responseMask[at]) continue;
    const start = at;
    while (at + 1 < responseMask.length && responseMask[at + 1]) at += 1;
    turns.push({ start, end: at });
  }
  return turns;
}

/** A score for each turn of a sample. */
export type TurnReward = (input: RewardInput, turns: readonly Turn[]) => readonly number[] | Promise<readonly number[]>;

export interface HybridOptions extends ErrorPolicy {
  trajectory_weight?: number;
  turn_weight?: number;
  /** Score the turns here instead of taking the `turn_scores` that tools and environments left on the sample. */
  turnReward?: TurnReward;
}

/** A score for the whole trajectory on the last token, and scores of single turns on the last token of each turn. */
export class HybridRewardManager implements RewardManager {
  readonly name = 'hybrid';

  constructor(
    private readonly trajectory: RewardManager,
    private readonly options: HybridOptions = {},
  ) {}

  async score(samples: readonly RewardInput[]): Promise<ScoredSample[]> {
    const { trajectory_weight = 1, turn_weight = 1 } = this.options;
    const results = await this.trajectory.score(samples);
    const combined = await Promise.all(
      results.map(async (result, index) => {
        try {
          const given = await this.turnScores(samples[index]!);
          const turnScores = given.map((turn) => ({ ...turn, score: turn.score * turn_weight }));
          const total = turnScores.reduce((sum, turn) => sum + turn.score, 0);
          const score = result.score * trajectory_weight;
          const extras = {
            ...result.extras,
            trajectory_score: score,
            turn_score: total,
            scored_turns: turnScores.length,
          };
          return { ...result, score, extras, turnScores };
        } catch (error) {
          return failed(samples[index]!, error, this.options);
        }
      }),
    );
    const isNew = combined.some((result, index) => result.error !== results[index]!.error);
    return isNew ? applyErrorPolicy(this.name, samples, combined, this.options) : combined;
  }

  private async turnScores(sample: RewardInput): Promise<readonly TurnScore[]> {
    const given = sample.turn_scores ?? [];
    if (!this.options.turnReward) return given;
    const turns = turnsOf(sample.response_mask ?? []);
    const scores = await this.options.turnReward(sample, turns);
    if (scores.length !== turns.length) {
      throw new RangeError(`turnReward must return one score per turn: ${turns.length} turns, ${scores.length} scores`);
    }
    return turns.map((turn, index) => ({ tokenPosition: turn.end, score: scores[index]! }));
  }

  close(): Promise<void> {
    return this.trajectory.close();
  }
}
