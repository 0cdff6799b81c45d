/** A reward model: a decoder with one score per sequence, taught which of two answers is better. */
import { grad, manualSeed, nn, noGrad, openSafetensors, scope, type Tensor, tensor, zeros } from '@verlet/torch';
import type { SftConfig } from '../../config/index.js';
import { PackedAttention } from '../../models/attention.js';
import { loadWeights } from '../../models/checkpoint.js';
import { recomputePlan } from '../../models/recompute.js';
import { saveValueModel, ValueModel } from '../../models/value-model.js';
import { adaptModel } from '../../workers/adapters.js';
import { configOf } from '../../workers/model-source.js';
import type { Learner, Validation } from '../sft/learner.js';
import { asUserError, type ModelSource, placementOf, saveTemplate } from '../sft/model.js';
import { createOptimizer, type ScheduledOptimizer, schedule } from '../sft/optimizer.js';
import { mean } from '../statistics.js';
import { type RankingLoss, rankingLoss } from './losses.js';
import type { Answer, PairItem } from './pair-dataset.js';
import { PairLearner } from './pair-learner.js';
import type { PreferenceSettings } from './settings.js';

interface PairScores extends RankingLoss {
  scores: [chosen: number, rejected: number];
}

export class RewardModelLearner extends PairLearner<ValueModel> implements Learner<PairItem> {
  private constructor(
    config: SftConfig,
    private readonly settings: PreferenceSettings,
    source: ModelSource,
    model: ValueModel,
    optim: ScheduledOptimizer,
  ) {
    super(config, source, model, optim);
  }

  static async create(
    config: SftConfig,
    settings: PreferenceSettings,
    source: ModelSource,
    totalSteps: number,
  ): Promise<RewardModelLearner> {
    const model = await asUserError(async () => {
      // The score head starts from random numbers: the same in every run.
      manualSeed(config.trainer.seed);
      const made = new ValueModel(await configOf(source.folder, config.model), placementOf(config));
      using reader = openSafetensors(source.folder);
      const hasHead = reader.has('score.weight');
      loadWeights(made, source.folder, (name) => (name.startsWith('score.') && !hasHead ? null : name));
      await adaptModel(made, config.model);
      return made;
    });
    const optim = createOptimizer(model, config.optim, totalSteps);
    return new RewardModelLearner(config, settings, source, model, optim);
  }

  step(items: readonly PairItem[], progress: number): Record<string, number> {
    const lr = schedule(this.optim, progress);
    this.model.clearGradients();
    const outcomes = this.cut(items).flatMap((pairs) => this.accumulate(pairs, items.length));
    return this.finishStep(items, describe(outcomes, 'train'), lr);
  }

  validate(items: readonly PairItem[]): Validation {
    const outcomes = this.cut(items).flatMap((pairs) =>
      noGrad(() =>
        scope(() => {
          const { inputIds, context, ends } = this.pack(pairs);
          const hidden = this.model.model.forward(inputIds, context).indexSelect(0, ends);
          const outcome = this.judge(this.model.values(hidden));
          context.dispose();
          return outcome;
        }),
      ),
    );
    return { metrics: describe(outcomes, 'val'), weight: items.length };
  }

  /** Adds the gradient of some pairs to the parameters. */
  private accumulate(pairs: readonly PairItem[], batchSize: number): PairScores[] {
    return scope(() => {
      const { model } = this;
      const { inputIds, context, ends } = this.pack(pairs);
      const recompute = recomputePlan(this.config.model, model.device);
      const pass = model.model.forwardForTraining(inputIds, context, { recompute });
      const hidden = pass.hidden.indexSelect(0, ends).setRequiresGrad();
      const scores = model.values(hidden);
      const outcomes = this.judge(scores);
      const slopes = outcomes.flatMap(({ chosen, rejected }) => [chosen / batchSize, rejected / batchSize]);
      const head = [...model.score.parameters()].filter((parameter) => parameter.trainable);
      const outer = tensor(Float32Array.from(slopes), { device: model.device });
      const [gradHidden, ...own] = grad([scores], [hidden, ...head], [outer]);
      head.forEach((parameter, k) => {
        parameter.accumulate(own[k]!);
      });
      const spread = zeros(pass.hidden.shape, { dtype: gradHidden!.dtype, device: model.device });
      pass.backward(spread.indexAdd_(0, ends, gradHidden!));
      context.dispose();
      return outcomes;
    });
  }

  private pack(pairs: readonly PairItem[]): { inputIds: Tensor; context: PackedAttention; ends: Tensor } {
    const answers = pairs.flatMap(({ chosen, rejected }): Answer[] => [chosen, rejected]);
    const lengths = answers.map(({ tokenIds }) => tokenIds.length);
    const { device } = this.model;
    let start = 0;
    const ends = answers.map(({ tokenIds }) => {
      const at = start + this.scoredToken(tokenIds);
      start += tokenIds.length;
      return at;
    });
    return {
      inputIds: nn.indexTensor(
        answers.flatMap(({ tokenIds }) => Array.from(tokenIds)),
        device,
      ),
      context: new PackedAttention(lengths, device),
      ends: nn.indexTensor(ends, device),
    };
  }

  /** Where the finished model is read too: at the last token that is not padding. */
  private scoredToken(tokenIds: Int32Array): number {
    const pad = this.padTokenId;
    let at = tokenIds.length - 1;
    while (at > 0 && tokenIds[at] === pad) at--;
    return at;
  }

  private get padTokenId(): number {
    return this.model.config.padTokenId ?? this.source.tokenizer.padTokenId;
  }

  private judge(scores: Tensor): PairScores[] {
    const values = scores.detach().to('cpu').toFloat32Array();
    return Array.from({ length: values.length / 2 }, (_, k) => {
      const [chosen, rejected] = [values[2 * k]!, values[2 * k + 1]!];
      return {
        ...rankingLoss(chosen, rejected, this.settings.centerRewardsCoefficient),
        scores: [chosen, rejected] as [number, number],
      };
    });
  }

  protected async saveModel(folder: string): Promise<void> {
    const { model, source } = this;
    await saveValueModel(model, folder, { kind: 'sequence', padTokenId: this.padTokenId });
    await source.tokenizer.save(folder);
    await saveTemplate(folder, source);
  }
}

function describe(outcomes: readonly PairScores[], prefix: 'train' | 'val'): Record<string, number> {
  return {
    [`${prefix}/loss`]: mean(outcomes.map(({ loss }) => loss)),
    [`${prefix}/accuracy`]: mean(outcomes.map(({ scores: [chosen, rejected] }) => (chosen > rejected ? 1 : 0))),
    [`${prefix}/score/chosen`]: mean(outcomes.map(({ scores: [chosen] }) => chosen)),
    [`${prefix}/score/rejected`]: mean(outcomes.map(({ scores: [, rejected] }) => rejected)),
  };
}
