/** GDPO: every reward is normalised within its group before they are added, so that a loud one does not drown the others. */
import type { AdvantageInput } from '../types.js';
import { grpoScalars } from './group-relative.js';
import { readMatrix, rowSums, spread, timesMask, whiten, writeMatrix } from './matrix.js';
import { outcomeScalars } from './outcome.js';
import { registerAdvantage } from './registry.js';

function rewardsByKey({ extraScores, config, tokenLevelRewards }: AdvantageInput): Float64Array[] {
  const keys = config?.gdpo_reward_keys;
  if (!keys || keys.length === 0) {
    if (!extraScores) return [rowSums(readMatrix(tokenLevelRewards))];
    throw new RangeError(
      `gdpo needs algorithm.gdpo_reward_keys; the reward returned ${Object.keys(extraScores).join(', ')}`,
    );
  }
  return keys.map((key) => {
    const scores = extraScores?.[key];
    if (!scores)
      throw new RangeError(
        `gdpo: the reward returned no '${key}'; it returned ${Object.keys(extraScores ?? {}).join(', ') || 'none'}`,
      );
    return 'toFloat64Array' in scores ? scores.toFloat64Array() : Float64Array.from(scores);
  });
}

registerAdvantage('gdpo', (input) => {
  const mask = readMatrix(input.responseMask);
  const rewards = rewardsByKey(input);
  const weights = input.config?.gdpo_reward_weights ?? rewards.map(() => 1);
  if (weights.length !== rewards.length)
    throw new RangeError(`gdpo: ${weights.length} gdpo_reward_weights for ${rewards.length} rewards`);
  const total = new Float64Array(mask.rows);
  for (const [k, scores] of rewards.entries())
    for (const [row, scalar] of outcomeScalars(input, mask, grpoScalars, scores).entries())
      total[row]! += weights[k]! * scalar;
  const advantages = writeMatrix(timesMask(whiten(spread(total, mask), mask), mask), input.tokenLevelRewards);
  return { advantages, returns: advantages.clone() };
});
