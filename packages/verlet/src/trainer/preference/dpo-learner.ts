import type { SftConfig } from '../../config/index.js';
import { loadWeights } from '../../models/checkpoint.js';
import { loraOf } from '../../models/lora.js';
import { recomputePlan } from '../../models/recompute.js';
import { CausalLM } from '../../models/transformer.js';
import { configOf } from '../../workers/model-source.js';
import type { Learner, Validation } from '../sft/learner.js';
import { loadTrainable, type ModelSource, placementOf, saveTrained } from '../sft/model.js';
import { createOptimizer, type ScheduledOptimizer, schedule } from '../sft/optimizer.js';
import { mean } from '../statistics.js';
import { preferenceLoss } from './losses.js';
import type { PairItem } from './pair-dataset.js';
import { PairLearner } from './pair-learner.js';
import { answerLogProbs, trainOnAnswers } from './sequence-pass.js';
import type { PreferenceSettings } from './settings.js';

/** What one pair came to. */
interface PairOutcome {
  loss: number;
  /** beta times how far the policy moved from the reference, for either answer. */
  chosenReward: number;
  rejectedReward: number;
}

/**
 * Direct preference optimisation: prefer the chosen answer more than the reference does. The reference is the model as it
 * was: a frozen copy, or with an adapter that starts from nothing the same model without it.
 */
export class DpoLearner extends PairLearner<CausalLM> implements Learner<PairItem> {
  private constructor(
    config: SftConfig,
    private readonly settings: PreferenceSettings,
    source: ModelSource,
    model: CausalLM,
    private readonly reference: CausalLM | null,
    optim: ScheduledOptimizer,
  ) {
    super(config, source, model, optim);
  }

  static async create(
    config: SftConfig,
    settings: PreferenceSettings,
    source: ModelSource,
    totalSteps: number,
  ): Promise<DpoLearner> {
    const model = await loadTrainable(config, source);
    let reference: CausalLM | null = null;
    // An adapter that was trained before is part of where this run starts, so switching it off would be another reference.
    if (!loraOf(model) || config.model.lora_adapter_path) {
      if (config.model.lora_adapter_path) reference = await loadTrainable(config, source);
      else {
        reference = new CausalLM(await configOf(source.folder, config.model), placementOf(config));
        loadWeights(reference, source.folder);
      }
      reference.setTrainable(false);
    }
    return new DpoLearner(config, settings, source, model, reference, createOptimizer(model, config.optim, totalSteps));
  }

  step(items: readonly PairItem[], progress: number): Record<string, number> {
    const lr = schedule(this.optim, progress);
    const outcomes: PairOutcome[] = [];
    this.model.clearGradients();
    for (const pairs of this.cut(items)) {
      const answers = pairs.flatMap(({ chosen, rejected }) => [chosen, rejected]);
      const reference = this.referenceLogProbs(pairs);
      trainOnAnswers(
        this.model,
        answers,
        (policy) =>
          pairs.flatMap((pair, k) => {
            const { outcome, chosenSlope, rejectedSlope } = this.judge(pair, policy, reference, k);
            outcomes.push(outcome);
            return [chosenSlope / items.length, rejectedSlope / items.length];
          }),
        { recompute: recomputePlan(this.config.model, this.model.device) },
      );
    }
    return this.finishStep(items, describe(outcomes, 'train'), lr);
  }

  validate(items: readonly PairItem[]): Validation {
    const outcomes = this.cut(items).flatMap((pairs) => {
      const policy = answerLogProbs(
        this.model,
        pairs.flatMap(({ chosen, rejected }) => [chosen, rejected]),
      );
      const reference = this.referenceLogProbs(pairs);
      return pairs.map((pair, k) => this.judge(pair, policy, reference, k).outcome);
    });
    return { metrics: describe(outcomes, 'val'), weight: items.length };
  }

  private judge(pair: PairItem, policy: readonly number[], reference: readonly number[], k: number) {
    const { beta, sftCoefficient } = this.settings;
    const chosen = policy[2 * k]! - reference[2 * k]!;
    const rejected = policy[2 * k + 1]! - reference[2 * k + 1]!;
    const { loss, slope } = preferenceLoss(chosen - rejected, this.settings);
    const length = Math.max(
      1,
      pair.chosen.lossMask.reduce((sum, bit) => sum + bit, 0),
    );
    return {
      outcome: {
        loss: loss - (sftCoefficient * policy[2 * k]!) / length,
        chosenReward: beta * chosen,
        rejectedReward: beta * rejected,
      },
      chosenSlope: slope - sftCoefficient / length,
      rejectedSlope: -slope,
    };
  }

  private referenceLogProbs(pairs: readonly PairItem[]): number[] {
    const answers = pairs.flatMap(({ chosen, rejected }) => [chosen, rejected]);
    if (this.reference) return answerLogProbs(this.reference, answers);
    return loraOf(this.model)!.without(() => answerLogProbs(this.model, answers));
  }

  protected saveModel(folder: string): Promise<void> {
    return saveTrained(folder, this.model, this.source);
  }

  override close(): void {
    super.close();
    this.reference?.dispose();
  }
}

function describe(outcomes: readonly PairOutcome[], prefix: 'train' | 'val'): Record<string, number> {
  const margins = outcomes.map(({ chosenReward, rejectedReward }) => chosenReward - rejectedReward);
  return {
    [`${prefix}/loss`]: mean(outcomes.map(({ loss }) => loss)),
    [`${prefix}/accuracy`]: mean(margins.map((margin) => (margin > 0 ? 1 : 0))),
    [`${prefix}/rewards/chosen`]: mean(outcomes.map(({ chosenReward }) => chosenReward)),
    [`${prefix}/rewards/rejected`]: mean(outcomes.map(({ rejectedReward }) => rejectedReward)),
    [`${prefix}/rewards/margin`]: mean(margins),
  };
}
