/** The policy's update: one mini-batch is one optimizer step, made of micro-batches whose gradients add up. */
import { type AdamW, grad, nn, scope, type Tensor, zeros } from '@verlet/torch';
import {
  aggLoss,
  type GlobalCounts,
  isTopKDivergence,
  klPenalty,
  type LossAggMode,
  type PolicyLoss,
  type PolicyLossConfig,
  type PolicyLossInput,
  policyLoss,
  type RolloutCorrectionConfig,
  type TopKDivergenceOptions,
  topKDivergence,
} from '../algorithms/index.js';
import type { PpoConfig } from '../config/index.js';
import { PackedAttention } from '../models/attention.js';
import type { CausalLM } from '../models/transformer.js';
import { canPassWhole, resumePass } from '../models/whole-pass.js';
import type { DataProto } from '../protocol/index.js';
import type { MetricList } from './metric-list.js';
import { globalCounts, NonFiniteError, takeStep, togetherOrNotAtAll, type UpdateOptions } from './optimizer-step.js';
import {
  type PackedRows,
  pack,
  packOptions,
  packRows,
  RECORDED_TOKENS,
  type RowSource,
  rowSource,
  SHARED_TOKENS,
  unpack,
} from './packing.js';
import { recordedRows } from './recorded-rows.js';

export interface ActorUpdateConfig extends PolicyLossConfig {
  loss_agg_mode: LossAggMode;
  loss_scale_factor?: number | null;
  entropy_coeff: number;
  calculate_entropy: boolean;
  use_kl_loss: boolean;
  kl_loss_coef: number;
  kl_loss_type: string;
  grad_clip: number;
  /** `algorithm.rollout_correction`; bypass mode reads it. */
  rollout_correction?: Partial<RolloutCorrectionConfig> | null;
  /** A divergence to the teacher's likeliest tokens, which the batch then carries. */
  topKDistillation?: (TopKDivergenceOptions & { coefficient: number }) | null;
}

/** What `distillation` asks of the update itself; null unless it is a loss over the teacher's likeliest tokens. */
export function topKDistillation({ distillation }: PpoConfig): ActorUpdateConfig['topKDistillation'] {
  const { loss_mode: mode, ...loss } = distillation.distillation_loss;
  if (!distillation.enabled || !isTopKDivergence(mode)) return null;
  return {
    mode,
    coefficient: loss.distillation_loss_coef,
    logProbMinClamp: loss.log_prob_min_clamp,
    lossMaxClamp: loss.loss_max_clamp,
  };
}

export class ActorUpdater {
  constructor(
    private readonly model: CausalLM,
    private readonly optimizer: AdamW,
    private readonly config: ActorUpdateConfig,
    private readonly ownLoss?: PolicyLoss,
  ) {}

  /** One optimizer step over the given rows. */
  step(
    batch: DataProto,
    microBatches: readonly (readonly number[])[],
    metrics: MetricList,
    options: UpdateOptions,
  ): void {
    const source = rowSource(batch);
    const counts = globalCounts(source, microBatches.flat(), options, this.config.loss_scale_factor);
    this.model.clearGradients();
    metrics.addParts(
      togetherOrNotAtAll('actor', options, () =>
        microBatches.map((micro) => scope(() => this.accumulate(batch, source, micro, counts, metrics, options))),
      ),
    );
    takeStep(this.model, this.optimizer, 'actor', this.config.grad_clip, metrics, options);
  }

  private accumulate(
    batch: DataProto,
    source: RowSource,
    rows: readonly number[],
    counts: GlobalCounts,
    metrics: MetricList,
    options: UpdateOptions,
  ): Record<string, number> {
    const { model, config } = this;
    const packed = packRows(source, rows, packOptions(model, options.sharePrompts));
    const context = new PackedAttention(packed.lengths, model.device, packed.prefixes);
    const { recompute } = options;
    const recorded = canPassWhole(model.model, context, { recompute })
      ? recordedRows(options.tape, source, packed)
      : null;
    const pass = recorded
      ? resumePass(model.model, packed.inputIds, context, packed.predictors, recorded)
      : model.model.forwardForTraining(packed.inputIds, context, { recompute, rows: packed.predictors });
    // Without a scoring pass before, this one is where entropy and the difference to the sampler can be seen.
    const isFirstPass = !batch.batch.has('old_log_probs');
    const useEntropy = config.entropy_coeff !== 0 || config.calculate_entropy || isFirstPass;
    const index = nn.indexTensor(rows);
    const column = (key: string): Tensor | null => batch.batch.get(key)?.indexSelect(0, index).to(model.device) ?? null;
    const teacher = config.topKDistillation ? teacherTokens(column, packed) : null;
    const head = new nn.LogProbHead(pass.hidden, model.headWeight, packed.targets, {
      temperature: options.temperature,
      entropy: useEntropy,
      alternatives: teacher?.ids,
      train: true,
    });

    const mask = column('response_mask')!.to('float32');
    const logProb = unpack(head.result.logProbs, packed).setRequiresGrad();
    const entropy = head.result.entropy ? unpack(head.result.entropy, packed).setRequiresGrad() : null;
    head.result.logProbs.dispose();
    head.result.entropy?.dispose();

    const alternatives = head.result.alternatives?.setRequiresGrad() ?? null;
    const divergence = teacher && alternatives ? this.divergence(alternatives, teacher.logProbs, packed) : null;

    const { loss, losses, report } = this.loss({ logProb, entropy, divergence, mask, column, counts });
    if (teacher && alternatives) metrics.add(massMetrics(alternatives, teacher.logProbs));
    metrics.add(report);
    if (isFirstPass) metrics.add(firstPassMetrics(logProb, entropy, column('rollout_log_probs'), mask));
    else if (config.calculate_entropy) metrics.add(firstPassMetrics(logProb, entropy, null, mask));
    const inputs = [logProb, entropy, alternatives].filter((input): input is Tensor => input !== null);
    const gradients = grad([loss], inputs, [], { allowUnused: true });
    const slopeOf = (input: Tensor | null): Tensor | null => (input && gradients[inputs.indexOf(input)]) ?? null;
    const [gradLogProb, gradEntropy] = [slopeOf(logProb), slopeOf(entropy)];
    const gradHidden = head.backward(
      gradLogProb ? pack(gradLogProb, packed) : zeros([packed.targets.numel], { device: model.device }),
      gradEntropy ? pack(gradEntropy, packed) : null,
      model.headWeight,
      slopeOf(alternatives),
    );
    alternatives?.dispose();
    pass.backward(gradHidden);
    context.dispose();
    packed.dispose();
    return {
      ...losses,
      [SHARED_TOKENS]: packed.sharedTokens,
      [RECORDED_TOKENS]: recorded ? packed.tokens : 0,
    };
  }

  /** Per response token, [rows, responseWidth]; the gradient flows to `alternatives`. */
  private divergence(alternatives: Tensor, teacher: Tensor, packed: PackedRows): Tensor {
    const values = topKDivergence(alternatives, teacher, this.config.topKDistillation!);
    const flat = zeros([packed.rows.length * packed.responseWidth], { device: values.device });
    return flat.indexAdd(0, packed.places, values).reshape(packed.rows.length, packed.responseWidth);
  }

  private loss(parts: {
    logProb: Tensor;
    entropy: Tensor | null;
    divergence: Tensor | null;
    mask: Tensor;
    column: (key: string) => Tensor | null;
    counts: GlobalCounts;
  }): { loss: Tensor; losses: Record<string, number>; report: Record<string, number> } {
    const { config } = this;
    const { logProb, entropy, divergence, mask, column, counts } = parts;
    // Without a recomputation the policy that sampled is the policy as it is now: the ratio is 1 and only its gradient counts.
    const oldLogProb = column('old_log_probs') ?? logProb.detach();
    const { ownLoss } = this;
    const lossOf = ownLoss ? (input: PolicyLossInput) => scope(() => ownLoss(input)) : policyLoss;
    const { loss: policy, metrics } = lossOf({
      oldLogProb,
      logProb,
      advantages: column('advantages')!,
      responseMask: mask,
      lossAggMode: config.loss_agg_mode,
      counts,
      config,
      rolloutIsWeights: column('rollout_is_weights'),
      rolloutLogProb: column('rollout_log_probs'),
      rolloutCorrection: config.rollout_correction,
    });
    const report: Record<string, number> = { ...metrics };
    const losses: Record<string, number> = { 'actor/pg_loss': policy.item() };
    let loss = policy;
    if (entropy && config.entropy_coeff !== 0) {
      const mean = aggLoss(entropy, mask, config.loss_agg_mode, counts);
      losses['actor/entropy_loss'] = mean.item();
      loss = loss.sub(mean.mul(config.entropy_coeff));
    }
    if (config.use_kl_loss) {
      const kl = aggLoss(
        klPenalty(logProb, column('ref_log_prob')!, config.kl_loss_type),
        mask,
        config.loss_agg_mode,
        counts,
      );
      losses['actor/kl_loss'] = kl.item();
      report['actor/kl_coef'] = config.kl_loss_coef;
      loss = loss.add(kl.mul(config.kl_loss_coef));
    }
    if (divergence) {
      const mean = aggLoss(divergence, mask, config.loss_agg_mode, counts);
      losses['distillation/loss'] = mean.item();
      loss = loss.add(mean.mul(config.topKDistillation!.coefficient));
    }
    if (!Number.isFinite(loss.item())) throw new NonFiniteError(`the actor's loss is ${loss.item()}`);
    return { loss, losses, report };
  }
}

/** What the teacher finds likeliest where the student sampled, [scored, k]. */
function teacherTokens(column: (key: string) => Tensor | null, packed: PackedRows) {
  const [ids, logProbs] = ['teacher_topk_ids', 'teacher_topk_log_probs'].map((key) => {
    const values = column(key)!;
    return values.reshape(-1, values.size(-1)).indexSelect(0, packed.places);
  });
  return { ids: ids!.to('int64'), logProbs: logProbs! };
}

/** How much of either distribution the teacher's likeliest tokens hold. */
function massMetrics(student: Tensor, teacher: Tensor): Record<string, number> {
  const mass = (logProbs: Tensor): number => logProbs.detach().exp().sum(-1).mean().item();
  return student.numel === 0
    ? {}
    : { 'distillation/student_mass': mass(student), 'distillation/teacher_mass': mass(teacher) };
}

/** Entropy, and how far the sampler's probabilities are from this pass's, over the sampled tokens. */
function firstPassMetrics(
  logProb: Tensor,
  entropy: Tensor | null,
  rollout: Tensor | null,
  mask: Tensor,
): Record<string, number> {
  const count = Math.max(1, mask.sum().item());
  const report: Record<string, number> = {};
  if (entropy) report['actor/entropy'] = entropy.detach().mul(mask).sum().item() / count;
  if (rollout) {
    const difference = logProb.detach().exp().sub(rollout.exp()).abs().mul(mask);
    report['training/rollout_probs_diff_valid'] = 1;
    report['training/rollout_probs_diff_max'] = difference.max().item();
    const mean = difference.sum().item() / count;
    report['training/rollout_probs_diff_mean'] = mean;
    const square = difference.square().sum().item() / count;
    report['training/rollout_probs_diff_std'] = Math.sqrt(Math.max(0, square - mean ** 2));
    report['training/rollout_actor_probs_pearson_corr'] = correlation(
      logProb.detach().exp(),
      rollout.exp(),
      mask,
      count,
    );
  }
  return report;
}

/** Pearson's, over the sampled tokens; 1 where one of the two does not vary. */
function correlation(a: Tensor, b: Tensor, mask: Tensor, count: number): number {
  const centred = (values: Tensor): Tensor => values.sub(values.mul(mask).sum().item() / count).mul(mask);
  const [x, y] = [centred(a), centred(b)];
  const scale = Math.sqrt(x.square().sum().item() * y.square().sum().item());
  return scale > 0 ? x.mul(y).sum().item() / scale : 1;
}
