/** Lets a reward ask the policy: pairs of prompt and response as a batch of their own through the pass that gives log-probs. */
import { tensor } from '@verlet/torch';
import { DataProto } from '../protocol/index.js';
import { type PolicyQuery, type PolicyScores, RewardError } from '../rewards/index.js';
import type { ActorGroup } from './ppo.js';

/** The columns that the scoring pass reads: left-padded prompts, right-padded responses. */
export function queryBatch(queries: readonly PolicyQuery[], padTokenId: number): DataProto {
  const promptWidth = Math.max(...queries.map(({ promptIds }) => promptIds.length));
  const responseWidth = Math.max(...queries.map(({ responseIds }) => responseIds.length));
  const width = promptWidth + responseWidth;
  const rows = queries.length;
  const inputIds = new Int32Array(rows * width).fill(padTokenId);
  const attentionMask = new Int32Array(rows * width);
  const positionIds = new Int32Array(rows * width);
  const responses = new Int32Array(rows * responseWidth).fill(padTokenId);
  const responseMask = new Int32Array(rows * responseWidth);
  for (const [row, { promptIds, responseIds, responseMask: mask }] of queries.entries()) {
    const start = row * width + promptWidth - promptIds.length;
    const length = promptIds.length + responseIds.length;
    inputIds.set(promptIds, start);
    inputIds.set(responseIds, row * width + promptWidth);
    attentionMask.fill(1, start, start + length);
    for (let k = 0; k < length; k++) positionIds[start + k] = k;
    responses.set(responseIds, row * responseWidth);
    for (let k = 0; k < responseIds.length; k++) responseMask[row * responseWidth + k] = mask ? Number(mask[k]) : 1;
  }
  const whole = (values: Int32Array, columns: number) => tensor(values, { shape: [rows, columns] });
  return DataProto.fromDict({
    tensors: {
      input_ids: whole(inputIds, width),
      attention_mask: whole(attentionMask, width),
      position_ids: whole(positionIds, width),
      responses: whole(responses, responseWidth),
      response_mask: whole(responseMask, responseWidth),
    },
  });
}

export async function scorePolicy(
  actor: Pick<ActorGroup, 'computeLogProb'>,
  queries: readonly PolicyQuery[],
  padTokenId: number,
): Promise<PolicyScores[]> {
  if (queries.length === 0) return [];
  for (const [k, { promptIds, responseIds, responseMask }] of queries.entries()) {
    if (promptIds.length === 0) throw new RewardError(`scorePolicy: query ${k} has no prompt tokens`);
    if (responseMask && responseMask.length !== responseIds.length)
      throw new RewardError(
        `scorePolicy: query ${k} has ${responseIds.length} response tokens and a mask of ${responseMask.length}`,
      );
  }
  if (queries.every(({ responseIds }) => responseIds.length === 0))
    return queries.map(() => ({ logProbs: new Float32Array(0), entropy: new Float32Array(0) }));
  const batch = queryBatch(queries, padTokenId);
  try {
    const scored = await actor.computeLogProb(batch);
    const width = batch.tensor('responses').size(1);
    const logProbs = scored.tensor('old_log_probs').toFloat32Array();
    const entropy = scored.tensor('entropys').toFloat32Array();
    scored.dispose();
    return queries.map(({ responseIds }, row) => {
      const end = row * width + responseIds.length;
      return { logProbs: logProbs.slice(row * width, end), entropy: entropy.slice(row * width, end) };
    });
  } finally {
    batch.dispose();
  }
}
