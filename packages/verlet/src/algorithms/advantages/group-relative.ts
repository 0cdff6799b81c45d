/** A row against the other rows of its prompt: GRPO and its relatives. */
import { meanOf, type Outcome, registerOutcome, spreadOf } from './outcome.js';

const epsilon = 1e-6;

/** The score against the group's mean, over its spread unless `normAdvByStd` is off (Dr.GRPO). A row alone keeps its score. */
export function grpoScalars({ scores, groups, input }: Outcome): Float64Array {
  const scalars = new Float64Array(scores.length);
  for (const rows of groups) {
    const alone = rows.length === 1;
    const mean = alone ? 0 : meanOf(scores, rows);
    const scale = input.normAdvByStd ? (alone ? 1 : spreadOf(scores, rows)) + epsilon : 1;
    for (const row of rows) scalars[row] = (scores[row]! - mean) / scale;
  }
  return scalars;
}

registerOutcome('grpo', grpoScalars);

// verl's vectorised form had a floor of 1e-6 under the variance and flattened groups with close scores; there is none here.
registerOutcome('grpo_vectorized', grpoScalars);

/** Only the best row of a group, by its lead over the second. */
registerOutcome('grpo_passk', ({ scores, groups, input }) => {
  const scalars = new Float64Array(scores.length);
  for (const rows of groups) {
    if (rows.length < 2)
      throw new RangeError('grpo_passk needs at least 2 samples per prompt; raise actor_rollout_ref.rollout.n');
    const [best, second] = [...rows].sort((a, b) => scores[b]! - scores[a]! || a - b) as [number, number];
    const lead = scores[best]! - scores[second]!;
    scalars[best] = input.normAdvByStd ? lead / (spreadOf(scores, rows) + epsilon) : lead;
  }
  return scalars;
});

function leaveOneOut({ scores, groups }: Outcome, alone: (score: number) => number): Float64Array {
  const scalars = new Float64Array(scores.length);
  for (const rows of groups) {
    const mean = meanOf(scores, rows);
    const n = rows.length;
    for (const row of rows) scalars[row] = n === 1 ? alone(scores[row]!) : (n / (n - 1)) * (scores[row]! - mean);
  }
  return scalars;
}

/** The score minus the mean of the others. */
registerOutcome('rloo', (outcome) => leaveOneOut(outcome, (score) => score));

registerOutcome('rloo_vectorized', (outcome) => leaveOneOut(outcome, () => 0));

/** Baseline weighted by length, which has the least variance when gradient norms grow with length. */
registerOutcome('opo', ({ scores, lengths, groups }) => {
  const scalars = new Float64Array(scores.length);
  for (const rows of groups) {
    const tokens = rows.reduce((sum, row) => sum + lengths[row]!, 0);
    const weighted = rows.reduce((sum, row) => sum + lengths[row]! * scores[row]!, 0);
    // A group without any token has no gradient either; verl divides by zero there.
    const baseline = rows.length === 1 || tokens === 0 ? 0 : weighted / tokens;
    for (const row of rows) scalars[row] = scores[row]! - baseline;
  }
  return scalars;
});

/** Centred, and scaled up by the share of rows with a score. */
registerOutcome('gpg', ({ scores, groups }) => {
  const scored = scores.reduce((count, score) => count + (score === 0 ? 0 : 1), 0);
  const alpha = scores.length / Math.max(1, scored);
  const scalars = new Float64Array(scores.length);
  for (const rows of groups) {
    const mean = rows.length === 1 ? 0 : meanOf(scores, rows);
    for (const row of rows) scalars[row] = alpha * (scores[row]! - mean);
  }
  return scalars;
});
