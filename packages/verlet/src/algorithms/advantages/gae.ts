import { readMatrix, whiten, writeMatrix } from './matrix.js';
import { registerAdvantage } from './registry.js';

/** Generalized advantage estimation; positions outside the mask are stepped over, whatever their value says. */
registerAdvantage('gae', ({ tokenLevelRewards, responseMask, values, gamma, lam }) => {
  if (!values) throw new RangeError('gae needs values from a critic');
  const rewards = readMatrix(tokenLevelRewards);
  const mask = readMatrix(responseMask);
  const value = readMatrix(values).data;
  const { rows, columns } = rewards;
  const raw = new Float64Array(rows * columns);
  for (let row = 0; row < rows; row++) {
    let nextValue = 0;
    let advantage = 0;
    for (let t = columns - 1; t >= 0; t--) {
      const at = row * columns + t;
      if (mask.data[at] !== 0) {
        const delta = rewards.data[at]! + gamma * nextValue - value[at]!;
        advantage = delta + gamma * lam * advantage;
        nextValue = value[at]!;
      }
      raw[at] = advantage;
    }
  }
  const returns = raw.map((advantage, k) => advantage + value[k]!);
  return {
    advantages: writeMatrix(whiten({ rows, columns, data: raw }, mask), tokenLevelRewards),
    returns: writeMatrix({ rows, columns, data: returns }, tokenLevelRewards),
  };
});
