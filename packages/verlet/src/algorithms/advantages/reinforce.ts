/** REINFORCE++ with and without a group baseline, and ReMax. */
import { readMatrix, rewardToGo, spread, timesMask, whiten, writeMatrix } from './matrix.js';
import { meanOf, type Outcome, outcomeScalars } from './outcome.js';
import { registerAdvantage } from './registry.js';

/**
 * Discounted reward-to-go over model tokens, whitened over the batch. Observation spans are stepped over: verl reset the
 * running sum at the first of them, so that turns before a tool call never saw the reward.
 */
registerAdvantage('reinforce_plus_plus', ({ tokenLevelRewards, responseMask, gamma }) => {
  const rewards = readMatrix(tokenLevelRewards);
  const mask = readMatrix(responseMask);
  const { rows, columns } = rewards;
  const data = new Float64Array(rows * columns);
  for (let row = 0; row < rows; row++) {
    let running = 0;
    for (let t = columns - 1; t >= 0; t--) {
      const at = row * columns + t;
      if (mask.data[at] === 0) continue;
      running = rewards.data[at]! + gamma * running;
      data[at] = running;
    }
  }
  const returns = { rows, columns, data };
  return {
    advantages: writeMatrix(timesMask(whiten(returns, mask), mask), tokenLevelRewards),
    returns: writeMatrix(returns, tokenLevelRewards),
  };
});

function centered({ scores, groups }: Outcome): Float64Array {
  const scalars = new Float64Array(scores.length);
  for (const rows of groups) {
    const mean = rows.length === 1 ? 0 : meanOf(scores, rows);
    for (const row of rows) scalars[row] = scores[row]! - mean;
  }
  return scalars;
}

registerAdvantage('reinforce_plus_plus_baseline', (input) => {
  const mask = readMatrix(input.responseMask);
  const scalars = outcomeScalars(input, mask, centered);
  const advantages = writeMatrix(timesMask(whiten(spread(scalars, mask), mask), mask), input.tokenLevelRewards);
  return { advantages, returns: advantages.clone() };
});

/** Reward-to-go minus the score of the greedy answer to the same prompt. */
registerAdvantage('remax', ({ tokenLevelRewards, responseMask, rewardBaselines }) => {
  if (!rewardBaselines) throw new RangeError('remax needs the scores of greedy rollouts (rewardBaselines)');
  const mask = readMatrix(responseMask);
  const returns = rewardToGo(readMatrix(tokenLevelRewards), mask);
  const baseline = spread(rewardBaselines.toFloat64Array(), mask);
  const data = returns.data.map((value, k) => value - baseline.data[k]!);
  return {
    advantages: writeMatrix({ ...returns, data }, tokenLevelRewards),
    returns: writeMatrix(returns, tokenLevelRewards),
  };
});
