/** What learners from pairs share: how a batch is cut, and the step once every pair has left its gradient on the parameters. */
import { clipGradNorm, type nn } from '@verlet/torch';
import { gradientsOf, NonFiniteError } from '../../workers/optimizer-step.js';
import { ModelLearner } from '../sft/learner.js';
import { cutMicroBatches } from '../sft/micro-batches.js';
import type { PairItem } from './pair-dataset.js';

export abstract class PairLearner<Model extends nn.Module> extends ModelLearner<Model> {
  protected cut(items: readonly PairItem[]): PairItem[][] {
    return cutMicroBatches(items, pairLength, this.config.data);
  }

  /** Clips, takes the step and adds to the report what it came to; refuses what is not finite before any weight changes. */
  protected finishStep(items: readonly PairItem[], report: Record<string, number>, lr: number): Record<string, number> {
    const { model, optim } = this;
    const loss = report['train/loss']!;
    const gradients = gradientsOf(model, false);
    const { norm, finite } = clipGradNorm(gradients, this.config.optim.clip_grad || Number.POSITIVE_INFINITY);
    if (!finite || !Number.isFinite(loss)) {
      model.clearGradients();
      throw new NonFiniteError(`the loss is ${loss}, the gradient's norm ${norm}`);
    }
    optim.optimizer.step(gradients);
    model.clearGradients();
    const tokens = items.reduce((sum, pair) => sum + pairLength(pair), 0);
    return { ...report, 'train/grad_norm': norm, 'train/lr': lr, 'train/tokens': tokens };
  }
}

function pairLength({ chosen, rejected }: PairItem): number {
  return chosen.tokenIds.length + rejected.tokenIds.length;
}
