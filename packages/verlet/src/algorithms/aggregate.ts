import type { Tensor } from '@verlet/torch';
import { maskedSum } from './masked.js';
import type { GlobalCounts, LossAggMode } from './types.js';

/**
 * One number from a loss per token. Dividing by counts over the whole mini-batch on all ranks, times the number of ranks,
 * makes the sum over micro-batches and the mean over ranks independent of how the mini-batch was cut.
 */
export function aggLoss(lossMat: Tensor, lossMask: Tensor, mode: LossAggMode, counts: GlobalCounts): Tensor {
  const { dpSize } = counts;
  const rowsWithTokens = (): number =>
    counts.globalBatchSize ?? Math.max(lossMask.sum(-1).gt(0).to('float32').sum().item(), 1e-8);
  switch (mode) {
    case 'token-mean': {
      const tokens = counts.batchNumTokens ?? lossMask.sum().item();
      return maskedSum(lossMat, lossMask).mul(dpSize / Math.max(tokens, 1e-8));
    }
    case 'token-sum':
      return maskedSum(lossMat, lossMask).mul(dpSize);
    case 'seq-mean-token-sum':
      return maskedSum(lossMat, lossMask).mul(dpSize / rowsWithTokens());
    case 'seq-mean-token-sum-norm':
      return maskedSum(lossMat, lossMask).mul(
        dpSize / rowsWithTokens() / (counts.lossScaleFactor ?? lossMask.size(-1)),
      );
    case 'seq-mean-token-mean': {
      const rows = maskedSum(lossMat, lossMask, -1).div(lossMask.sum(-1).add(1e-8));
      return rows.sum().mul(dpSize / rowsWithTokens());
    }
    default:
      throw new RangeError(`unknown loss_agg_mode '${mode as string}'`);
  }
}
