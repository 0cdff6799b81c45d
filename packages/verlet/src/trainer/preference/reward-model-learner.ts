/** A reward model: a decoder with one score per sequence, taught which of two answers is better. */
import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import {
  grad,
  manualSeed,
  nn,
  noGrad,
  openSafetensors,
  saveSafetensors,
  scope,
  type Tensor,
  tensor,
  zeros,
} from '@verlet/torch';
import type { SftConfig } from '../../config/index.js';
import { PackedAttention } from '../../models/attention.js';
import { loadWeights } from '../../models/checkpoint.js';
import { loraOf } from '../../models/lora.js';
import { loadAdapter, saveAdapter } from '../../models/lora-files.js';
import { ValueModel } from '../../models/value-model.js';
import type { Learner, Validation } from '../sft/learner.js';
import { cutMicroBatches } from '../sft/micro-batches.js';
import { adapt, asUserError, configOf, type ModelSource, placementOf } from '../sft/model.js';
import { createOptimizer, type ScheduledOptimizer } from '../sft/optimizer.js';
import { mean } from '../statistics.js';
import { pairLength } from './dpo-learner.js';
import { type RankingLoss, rankingLoss } from './losses.js';
import type { Answer, PairItem } from './pair-dataset.js';
import type { PreferenceSettings } from './settings.js';
import { applyGradients } from './update.js';

interface PairScores extends RankingLoss {
  scores: [chosen: number, rejected: number];
}

export class RewardModelLearner implements Learner<PairItem> {
  private constructor(
    private readonly config: SftConfig,
    private readonly settings: PreferenceSettings,
    private readonly source: ModelSource,
    readonly model: ValueModel,
    private readonly optim: ScheduledOptimizer,
  ) {}

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
      await adapt(made, config.model);
      return made;
    });
    const optim = createOptimizer(model, config.optim, totalSteps);
    return new RewardModelLearner(config, settings, source, model, optim);
  }

  step(items: readonly PairItem[], progress: number): Record<string, number> {
    const lr = this.optim.schedule(progress);
    this.model.clearGradients();
    const outcomes = this.cut(items).flatMap((pairs) => this.accumulate(pairs, items.length));
    const report = describe(outcomes, 'train');
    const norm = applyGradients(this.model, this.optim.optimizer, this.config.optim.clip_grad, report['train/loss']!);
    const tokens = items.reduce((sum, pair) => sum + pairLength(pair), 0);
    return { ...report, 'train/grad_norm': norm, 'train/lr': lr, 'train/tokens': tokens };
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
      const recompute = this.config.model.enable_gradient_checkpointing && model.device !== 'cpu';
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

  private cut(items: readonly PairItem[]): PairItem[][] {
    return cutMicroBatches(items, pairLength, this.config.data);
  }

  async saveCheckpoint(folder: string): Promise<void> {
    const target = path.join(folder, 'huggingface');
    await mkdir(target, { recursive: true });
    const { model, source } = this;
    scope(() =>
      saveSafetensors(
        path.join(target, 'model.safetensors'),
        loraOf(model)?.mergedEntries(model) ?? model.stateEntries(),
        { metadata: { format: 'pt' } },
      ),
    );
    await source.tokenizer.save(target);
    if (source.chatTemplate !== undefined)
      await writeFile(path.join(target, 'chat_template.jinja'), source.chatTemplate);
    await writeFile(path.join(target, 'config.json'), `${JSON.stringify(this.classifierConfig(), null, 2)}\n`);
    if (loraOf(model))
      await saveAdapter(model, path.join(folder, 'lora_adapter'), { baseModel: this.config.model.partial_pretrain });
    this.optim.optimizer.save(path.join(folder, 'optimizer.safetensors'));
  }

  /** `config.json` of a sequence classifier with one label, which is what transformers takes for a reward model. */
  private classifierConfig(): Record<string, unknown> {
    const { raw } = this.model.config;
    const [name = 'ForCausalLM'] = (raw.architectures as string[] | undefined) ?? [];
    return {
      ...raw,
      architectures: [name.replace(/For[A-Za-z]+$/, 'ForSequenceClassification')],
      id2label: { 0: 'LABEL_0' },
      label2id: { LABEL_0: 0 },
      pad_token_id: this.padTokenId,
      torch_dtype: this.model.dtype,
    };
  }

  async loadCheckpoint(folder: string): Promise<void> {
    if (loraOf(this.model)) await loadAdapter(this.model, path.join(folder, 'lora_adapter'));
    else loadWeights(this.model, path.join(folder, 'huggingface'));
    if (this.config.checkpoint.load_contents.includes('optimizer'))
      this.optim.optimizer.load(path.join(folder, 'optimizer.safetensors'));
  }

  close(): void {
    this.optim.optimizer.dispose();
    this.model.dispose();
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
