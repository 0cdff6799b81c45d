import { createScorer, type RewardInput, type RewardResult, type Scorer } from '../rewards/index.js';

/** One of several rewards that count together. */
export interface RewardPart {
  /** Under which its own score is reported. */
  name: string;
  weight: number;
  scorer: Scorer;
}

/** The weighted sum of all parts, each of which is reported too. One part alone, of weight 1, is just that. */
export function addScores(parts: readonly RewardPart[]): Scorer {
  const [first] = parts;
  if (parts.length === 1 && first!.weight === 1) return first!.scorer;
  const common = {
    needs: [...new Set(parts.flatMap(({ scorer }) => scorer.needs))],
    close: async () => {
      await Promise.all(parts.map(({ scorer }) => scorer.close()));
    },
  };
  if (parts.every(({ scorer }) => scorer.type === 'sequential')) {
    const compute = async (input: RewardInput) =>
      sum(parts, await Promise.all(parts.map(({ scorer }) => scorer.scoreOne(input))));
    return createScorer({ type: 'sequential', compute, ...common });
  }
  return createScorer({
    type: 'batch',
    async compute(inputs) {
      const columns = await Promise.all(parts.map(({ scorer }) => scorer.scoreMany(inputs)));
      return inputs.map((_, row) =>
        sum(
          parts,
          columns.map((column) => column[row]!),
        ),
      );
    },
    ...common,
  });
}

function sum(parts: readonly RewardPart[], results: readonly RewardResult[]): RewardResult {
  const fields = results.map((result) => (typeof result === 'object' ? result : { score: Number(result) }));
  const scores = (fields as Record<string, unknown>[]).map((field) => Number(field.score ?? field.overall));
  const named = Object.fromEntries(parts.map(({ name }, index) => [name, scores[index]]));
  const score = parts.reduce((total, { weight }, index) => total + weight * scores[index]!, 0);
  return { ...Object.assign({}, ...fields), ...named, score };
}
