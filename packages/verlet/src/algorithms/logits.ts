/** From logits [..., vocab] to what the losses need. Training itself does this in token chunks inside the head. */
import { scope, type Tensor } from '@verlet/torch';
import { aggLoss } from './aggregate.js';
import type { GlobalCounts, LossAggMode } from './types.js';

/** -sum p log p. */
export function entropyFromLogits(logits: Tensor): Tensor {
  return scope(() => logits.logsumexp(-1).sub(logits.softmax(-1).mul(logits).sum(-1)));
}

/** Log-probability of `labels` [...] under logits [..., vocab]. */
export function logProbsFromLogits(logits: Tensor, labels: Tensor): Tensor {
  return scope(() => logits.gather(-1, labels.unsqueeze(-1)).squeeze(-1).sub(logits.logsumexp(-1)));
}

export function entropyLoss(
  logits: Tensor,
  responseMask: Tensor,
  mode: LossAggMode = 'token-mean',
  counts: GlobalCounts = { dpSize: 1, batchNumTokens: null, globalBatchSize: null },
): Tensor {
  return scope(() => aggLoss(entropyFromLogits(logits), responseMask, mode, counts));
}
