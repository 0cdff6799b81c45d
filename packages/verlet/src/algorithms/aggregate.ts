import { scope, type Tensor } from '@verlet/torch';
import { maskedSum } from './masked.js';
import type { GlobalCounts, LossAggMode } from './types.js';

/**
 * One number from a loss per token. Dividing by counts over the whole mini-batch on all ranks, times the number of ranks,
 * makes the sum over micro-batches and the mean over ranks independent of how the mini-batch was cut.
 */
export function aggLoss(lossMat: Tensor, lossMask: Tensor, mode: LossAggMode, counts: GlobalCounts): Tensor {
  return scope(() => {
    const { dpSize } = counts;
    switch (mode) {
      case 'token-mean':
        return over(maskedSum(lossMat, lossMask), tokenCount(lossMask, counts)).mul(dpSize);
      case 'token-sum':
        return maskedSum(lossMat, lossMask).mul(dpSize);
      case 'seq-mean-token-sum':
        return over(maskedSum(lossMat, lossMask), rowCount(lossMask, counts)).mul(dpSize);
      case 'seq-mean-token-sum-norm': {
        // verl before 2026 left out the mean over rows, which made the loss grow with the batch.
        const scale = counts.lossScaleFactor ?? lossMask.size(-1);
        return over(maskedSum(lossMat, lossMask), rowCount(lossMask, counts)).mul(dpSize / scale);
      }
      case 'seq-mean-token-mean': {
        const rowMeans = maskedSum(lossMat, lossMask, -1).div(lossMask.sum(-1).add(1e-8));
        return over(rowMeans.sum(), rowCount(lossMask, counts)).mul(dpSize);
      }
      default:
        throw new RangeError(
          `unknown loss_agg_mode '${mode as string}'; known: token-mean, token-sum, seq-mean-token-sum, ` +
            'seq-mean-token-sum-norm, seq-mean-token-mean',
        );
    }
  });
}

/** Counted tensors stay on the device: no wait in the middle of a step. Nothing counted gives 0, not NaN. */
function over(sum: Tensor, count: number | Tensor): Tensor {
  return typeof count === 'number' ? sum.div(Math.max(count, 1e-8)) : sum.div(count.to(sum.dtype).clamp(1e-8));
}

function tokenCount(lossMask: Tensor, counts: GlobalCounts): number | Tensor {
  if (counts.batchNumTokens !== null) return counts.batchNumTokens;
  needLocal(counts, 'batchNumTokens');
  return lossMask.sum();
}

function rowCount(lossMask: Tensor, counts: GlobalCounts): number | Tensor {
  if (counts.globalBatchSize !== null) return counts.globalBatchSize;
  needLocal(counts, 'globalBatchSize');
  return lossMask.sum(-1).gt(0).sum();
}

function needLocal(counts: GlobalCounts, name: string): void {
  if (counts.dpSize > 1)
    throw new RangeError(
      `counts.${name} over all ranks is required with dpSize ${counts.dpSize}: ranks would weigh unequally`,
    );
}
