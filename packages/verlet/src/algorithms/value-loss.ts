import { scope, type Tensor } from '@verlet/torch';
import { aggLoss } from './aggregate.js';
import { maskedMean, readScalars } from './masked.js';
import type { GlobalCounts, LossAggMode, LossResult } from './types.js';

export interface ValueLossInput {
  /** Carries the graph. */
  vpreds: Tensor;
  values: Tensor;
  returns: Tensor;
  responseMask: Tensor;
  cliprangeValue: number;
  lossAggMode: LossAggMode;
  counts: GlobalCounts;
}

/** Squared error against the returns, the prediction held near the old value; the worse of both counts. */
export function valueLoss(input: ValueLossInput): LossResult {
  return scope(() => {
    const { vpreds, values, returns, responseMask, cliprangeValue, lossAggMode, counts } = input;
    const clipped = vpreds.maximum(values.sub(cliprangeValue)).minimum(values.add(cliprangeValue));
    const plainError = vpreds.sub(returns).square();
    const clippedError = clipped.sub(returns).square();
    return {
      loss: aggLoss(plainError.maximum(clippedError), responseMask, lossAggMode, counts).mul(0.5),
      metrics: readScalars({
        'critic/vf_clipfrac': maskedMean(clippedError.gt(plainError).to(vpreds.dtype), responseMask),
        'critic/vpred_mean': maskedMean(vpreds.detach(), responseMask),
      }),
    };
  });
}
