import { createScorer, type Scorer } from '../functions/scorer.js';
import { RewardError, type RewardInput, type RewardMessage, type RewardModel } from '../types.js';

/** What a reward model reads: the whole conversation, or the prompt and the response as its last message. */
export const conversationOf = (input: RewardInput): readonly RewardMessage[] =>
  input.messages ?? [...(input.prompt ?? []), { role: 'assistant', content: input.solution_str }];

/** A sequence-classification model as a reward function; the trainer supplies the model. */
export function createRewardModelScorer(model: RewardModel): Scorer {
  const compute = async (inputs: readonly RewardInput[]) => {
    const scores = await model.scoreConversations(inputs.map(conversationOf));
    if (scores.length !== inputs.length) {
      throw new RewardError(`reward model ${model.name}: ${inputs.length} conversations, ${scores.length} scores`);
    }
    return scores.map((score) => ({ score, rm_score: score }));
  };
  return createScorer({ type: 'batch', compute });
}
