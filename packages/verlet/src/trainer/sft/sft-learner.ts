import type { SftConfig } from '../../config/index.js';
import type { SftItem } from '../../data/index.js';
import { recomputePlan } from '../../models/recompute.js';
import type { CausalLM } from '../../models/transformer.js';
import type { WorkerContext } from '../../workers/context.js';
import { acrossRanks, type UpdateOptions } from '../../workers/optimizer-step.js';
import { learntTokens, type SupervisedExample, supervisedLoss, supervisedStep } from '../../workers/supervised.js';
import { type Learner, ModelLearner, type Validation } from './learner.js';
import { cutMicroBatches } from './micro-batches.js';
import { loadTrainable, type ModelSource, saveTrained } from './model.js';
import { createOptimizer, schedule } from './optimizer.js';

/** Raises the likelihood of the learned tokens of every example. */
export class SftLearner extends ModelLearner<CausalLM> implements Learner<SftItem> {
  private ranks: Pick<UpdateOptions, 'dpSize' | 'sumOverRanks' | 'reduceGradients'> | null = null;

  /** With a context, one of several that learn together, each from its share of a batch. */
  static async create(
    config: SftConfig,
    source: ModelSource,
    totalSteps: number,
    context?: WorkerContext,
  ): Promise<SftLearner> {
    const model = await loadTrainable(config, source);
    const learner = new SftLearner(config, source, model, createOptimizer(model, config.optim, totalSteps));
    if (context) learner.ranks = acrossRanks(context);
    return learner;
  }

  step(items: readonly SftItem[], progress: number): Record<string, number> {
    const lr = schedule(this.optim, progress);
    const { loss, gradNorm } = supervisedStep(this.model, this.optim.optimizer, this.cut(items), {
      ...this.ranks,
      gradClip: this.config.optim.clip_grad || Number.POSITIVE_INFINITY,
      recompute: recomputePlan(this.config.model, this.model.device),
    });
    const tokens = items.reduce((sum, { inputIds }) => sum + inputIds.length, 0);
    return { 'train/loss': loss, 'train/grad_norm': gradNorm, 'train/lr': lr, 'train/tokens': tokens };
  }

  validate(items: readonly SftItem[]): Validation {
    const parts = items.length > 0 ? this.cut(items) : [];
    return { metrics: { 'val/loss': supervisedLoss(this.model, parts) }, weight: learntTokens(parts.flat()) };
  }

  protected saveModel(folder: string): Promise<void> {
    return saveTrained(folder, this.model, this.source);
  }

  private cut(items: readonly SftItem[]): SupervisedExample[][] {
    const parts = cutMicroBatches(items, ({ inputIds }) => inputIds.length, this.config.data);
    return parts.map((part) => part.map(({ inputIds, lossMask }) => ({ tokenIds: inputIds, lossMask })));
  }
}
