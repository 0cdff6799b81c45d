/** The critic: values of the sampled positions, and its own update. */
import { type AdamW, grad, nn, noGrad, scope, type Tensor, zeros } from '@verlet/torch';
import { type LossAggMode, valueLoss } from '../algorithms/index.js';
import { PackedAttention } from '../models/attention.js';
import type { ValueModel } from '../models/value-model.js';
import type { DataProto } from '../protocol/index.js';
import type { MetricList } from './metric-list.js';
import { globalCounts, NonFiniteError, takeStep, togetherOrNotAtAll, type UpdateOptions } from './optimizer-step.js';
import { pack, packOptions, packRows, rowSource, SHARED_TOKENS, unpack } from './packing.js';

export interface CriticUpdateConfig {
  cliprange_value: number;
  loss_agg_mode: LossAggMode;
  loss_scale_factor?: number | null;
  grad_clip: number;
}

/** Values of every sampled token's position, [rows, responseWidth] float32 on the CPU, zero elsewhere. */
export function computeValues(
  model: ValueModel,
  batch: DataProto,
  microBatches: readonly (readonly number[])[],
  options: { sharePrompts?: boolean } = {},
): Tensor {
  const source = rowSource(batch);
  const values = zeros([source.rows, source.responseWidth]).keep();
  for (const rows of microBatches)
    noGrad(() =>
      scope(() => {
        const packed = packRows(source, rows, packOptions(model, options.sharePrompts));
        const context = new PackedAttention(packed.lengths, model.device, packed.prefixes);
        const hidden = model.model.forward(packed.inputIds, context, packed.predictors);
        values.indexCopy_(0, nn.indexTensor(rows), unpack(model.values(hidden), packed).to('cpu'));
        context.dispose();
        packed.dispose();
      }),
    );
  return values;
}

export class CriticUpdater {
  constructor(
    private readonly model: ValueModel,
    private readonly optimizer: AdamW,
    private readonly config: CriticUpdateConfig,
  ) {}

  step(
    batch: DataProto,
    microBatches: readonly (readonly number[])[],
    metrics: MetricList,
    options: UpdateOptions,
  ): void {
    const source = rowSource(batch);
    const counts = globalCounts(source, microBatches.flat(), options, this.config.loss_scale_factor);
    this.model.clearGradients();
    const accumulate = (micro: readonly number[]): Record<string, number> =>
      scope(() => {
        const { model } = this;
        const packed = packRows(source, micro, packOptions(model, options.sharePrompts));
        const context = new PackedAttention(packed.lengths, model.device, packed.prefixes);
        const forward = model.model.forwardForTraining(packed.inputIds, context, {
          recompute: options.recompute,
          rows: packed.predictors,
        });
        const hidden = forward.hidden.detach().setRequiresGrad();
        const predicted = model.values(hidden);
        const vpreds = unpack(predicted.detach(), packed).setRequiresGrad();
        const index = nn.indexTensor(micro);
        const column = (key: string): Tensor => batch.tensor(key).indexSelect(0, index).to(model.device);
        const { loss, metrics: report } = valueLoss({
          vpreds,
          values: column('values'),
          returns: column('returns'),
          responseMask: column('response_mask').to('float32'),
          cliprangeValue: this.config.cliprange_value,
          lossAggMode: this.config.loss_agg_mode,
          counts,
        });
        if (!Number.isFinite(loss.item())) throw new NonFiniteError(`the critic's loss is ${loss.item()}`);
        metrics.add(report);
        const value = loss.item();
        const [gradPredicted] = grad([loss], [vpreds]);
        const parameters = [...model.score.parameters()].filter((parameter) => parameter.trainable);
        const [gradHidden, ...own] = grad(
          [predicted],
          [hidden, ...parameters],
          [pack(gradPredicted!, packed).to(predicted.dtype)],
        );
        parameters.forEach((parameter, k) => {
          parameter.accumulate(own[k]!);
        });
        forward.backward(gradHidden!);
        context.dispose();
        packed.dispose();
        return { 'critic/vf_loss': value, [SHARED_TOKENS]: packed.sharedTokens };
      });
    metrics.addParts(togetherOrNotAtAll('critic', options, () => microBatches.map(accumulate)));
    takeStep(this.model, this.optimizer, 'critic', this.config.grad_clip, metrics, options);
  }
}
