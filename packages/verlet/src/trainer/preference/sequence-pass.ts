/** Log-probabilities of whole answers under a causal model, and the way back from a slope per answer. */
import { nn, noGrad, scope, type Tensor, tensor } from '@verlet/torch';
import { PackedAttention } from '../../models/attention.js';
import type { CausalLM, TrainingOptions } from '../../models/transformer.js';
import type { Answer } from './pair-dataset.js';

interface PackedAnswers {
  inputIds: Tensor;
  lengths: number[];
  predictors: Tensor;
  targets: Tensor;
  /** Which answer each scored token belongs to. */
  owners: Int32Array;
}

function packAnswers(answers: readonly Answer[], device: string): PackedAnswers {
  const ids: number[] = [];
  const predictors: number[] = [];
  const targets: number[] = [];
  const owners: number[] = [];
  for (const [owner, { tokenIds, lossMask }] of answers.entries()) {
    const start = ids.length;
    for (let k = 0; k < tokenIds.length; k++) {
      if (k > 0 && lossMask[k] === 1) {
        predictors.push(start + k - 1);
        targets.push(tokenIds[k]!);
        owners.push(owner);
      }
      ids.push(tokenIds[k]!);
    }
  }
  return {
    inputIds: nn.indexTensor(ids, device),
    lengths: answers.map(({ tokenIds }) => tokenIds.length),
    predictors: nn.indexTensor(predictors, device),
    targets: nn.indexTensor(targets, device),
    owners: Int32Array.from(owners),
  };
}

function sumByOwner(logProbs: Tensor, owners: Int32Array, count: number): number[] {
  const values = logProbs.to('cpu').toFloat32Array();
  const sums = new Array<number>(count).fill(0);
  for (let k = 0; k < owners.length; k++) sums[owners[k]!]! += values[k]!;
  return sums;
}

/** Sum of the log-probabilities of each answer's tokens. */
export function answerLogProbs(model: CausalLM, answers: readonly Answer[]): number[] {
  return noGrad(() =>
    scope(() => {
      const packed = packAnswers(answers, model.device);
      const context = new PackedAttention(packed.lengths, model.device);
      const hidden = model.model.forward(packed.inputIds, context, packed.predictors);
      const { logProbs } = new nn.LogProbHead(hidden, model.headWeight, packed.targets).result;
      const sums = sumByOwner(logProbs, packed.owners, answers.length);
      logProbs.dispose();
      context.dispose();
      return sums;
    }),
  );
}

/** The same, learning: `slopes` turns the sums into the derivative of the loss by each of them. */
export function trainOnAnswers(
  model: CausalLM,
  answers: readonly Answer[],
  slopes: (sums: readonly number[]) => readonly number[],
  options: TrainingOptions = {},
): void {
  scope(() => {
    const packed = packAnswers(answers, model.device);
    const context = new PackedAttention(packed.lengths, model.device);
    const pass = model.model.forwardForTraining(packed.inputIds, context, { ...options, rows: packed.predictors });
    const head = new nn.LogProbHead(pass.hidden, model.headWeight, packed.targets, { train: true });
    const bySum = slopes(sumByOwner(head.result.logProbs, packed.owners, answers.length));
    head.result.logProbs.dispose();
    const outer = tensor(
      Float32Array.from(packed.owners, (owner) => bySum[owner]!),
      { device: model.device },
    );
    pass.backward(head.backward(outer, null, model.headWeight));
    context.dispose();
  });
}
