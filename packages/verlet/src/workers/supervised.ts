/** Supervised training: raise the log-probability of given tokens. The same packed pass and head as the policy's update. */
import { type AdamW, clipGradNorm, full, nn, scope, type Tensor, tensor } from '@verlet/torch';
import { PackedAttention } from '../models/attention.js';
import type { CausalLM } from '../models/transformer.js';
import { NonFiniteError, togetherOrNotAtAll, type UpdateOptions } from './optimizer-step.js';

/** One sequence; tokens with mask 1 are learnt from what stands before them. */
export interface SupervisedExample {
  tokenIds: ArrayLike<number>;
  lossMask: ArrayLike<number>;
}

export interface SupervisedResult {
  /** Mean negative log-probability per learnt token. */
  loss: number;
  gradNorm: number;
  tokens: number;
}

interface PackedExamples {
  inputIds: Tensor;
  lengths: number[];
  predictors: Tensor;
  targets: Tensor;
}

function packExamples(examples: readonly SupervisedExample[], device: string): PackedExamples {
  const ids: number[] = [];
  const lengths: number[] = [];
  const predictors: number[] = [];
  const targets: number[] = [];
  for (const { tokenIds, lossMask } of examples) {
    const start = ids.length;
    for (let k = 0; k < tokenIds.length; k++) {
      if (k > 0 && lossMask[k] === 1) {
        predictors.push(start + k - 1);
        targets.push(tokenIds[k]!);
      }
      ids.push(tokenIds[k]!);
    }
    lengths.push(tokenIds.length);
  }
  const long = (values: number[]): Tensor => tensor(Int32Array.from(values), { dtype: 'int64', device });
  return { inputIds: long(ids), lengths, predictors: long(predictors), targets: long(targets) };
}

export function learntTokens(examples: readonly SupervisedExample[]): number {
  let count = 0;
  for (const { lossMask } of examples) for (let k = 1; k < lossMask.length; k++) count += lossMask[k]!;
  return count;
}

/** Mean loss of the examples without learning from them. */
export function supervisedLoss(model: CausalLM, microBatches: readonly (readonly SupervisedExample[])[]): number {
  let sum = 0;
  let count = 0;
  for (const examples of microBatches)
    scope(() => {
      const packed = packExamples(examples, model.device);
      const context = new PackedAttention(packed.lengths, model.device);
      const hidden = model.model.forward(packed.inputIds, context, packed.predictors);
      const head = new nn.LogProbHead(hidden.detach(), model.headWeight, packed.targets);
      sum -= head.result.logProbs.sum().item();
      count += packed.targets.numel;
      head.result.logProbs.dispose();
      context.dispose();
    });
  return count > 0 ? sum / count : 0;
}

export interface SupervisedOptions
  extends Partial<Pick<UpdateOptions, 'recompute' | 'dpSize' | 'sumOverRanks' | 'reduceGradients'>> {
  gradClip: number;
}

/**
 * One optimizer step over micro-batches whose gradients add up; the loss is the mean over all learnt tokens, those of the other
 * ranks too.
 */
export function supervisedStep(
  model: CausalLM,
  optimizer: AdamW,
  microBatches: readonly (readonly SupervisedExample[])[],
  options: SupervisedOptions,
): SupervisedResult {
  const { dpSize = 1, sumOverRanks = (value: number) => value } = options;
  const total = sumOverRanks(microBatches.reduce((sum, examples) => sum + learntTokens(examples), 0));
  if (total === 0) throw new RangeError('none of the examples has a token to learn');
  let own = 0;
  model.clearGradients();
  const accumulate = (examples: readonly SupervisedExample[]): void =>
    scope(() => {
      const packed = packExamples(examples, model.device);
      const context = new PackedAttention(packed.lengths, model.device);
      const pass = model.model.forwardForTraining(packed.inputIds, context, {
        recompute: options.recompute,
        rows: packed.predictors,
      });
      const outer = full([packed.targets.numel], -dpSize / total, { device: model.device });
      const { logProbs, gradHidden } = nn.headStep(
        pass.hidden,
        model.headWeight,
        packed.targets,
        ({ start, length }) => ({ logProbs: outer.narrow(0, start, length) }),
      );
      pass.backward(gradHidden);
      own -= logProbs.sum().item() / total;
      context.dispose();
    });
  togetherOrNotAtAll('model', { dpSize, sumOverRanks }, () => microBatches.forEach(accumulate));
  const loss = sumOverRanks(own);
  const gradients = new Map<string, Tensor>();
  for (const [name, parameter] of model.namedParameters())
    if (parameter.gradient) gradients.set(name, parameter.gradient);
  options.reduceGradients?.(gradients);
  const { norm, finite } = clipGradNorm(gradients, options.gradClip);
  if (!finite || !Number.isFinite(loss)) {
    model.clearGradients();
    throw new NonFiniteError(`the loss is ${loss}, the gradient's norm ${norm}`);
  }
  optimizer.step(gradients);
  model.clearGradients();
  return { loss, gradNorm: norm, tokens: total };
}
