/**
 * The policy in its three roles on one rank: it samples, it is trained, and a frozen copy (or itself with the adapter off) is
 * the reference. Sampling and training use the same weights; nothing travels between them.
 */
import { type AdamW, buildInfo, manualSeed, type Tensor } from '@verlet/torch';
import type { AgentRow } from '../agents/index.js';
import type { PpoConfig } from '../config/index.js';
import { loadCausalLM, saveCausalLM } from '../models/checkpoint.js';
import { resolveModel } from '../models/hub/index.js';
import type { Lora } from '../models/lora.js';
import { recomputePlan } from '../models/recompute.js';
import type { Tokenizer } from '../models/tokenizer/index.js';
import type { CausalLM } from '../models/transformer.js';
import { DataProto } from '../protocol/index.js';
import { ActivationTape } from '../rollout/activation-tape.js';
import type { Engine, SamplingParams } from '../rollout/types.js';
import { ActorUpdater, topKDistillation } from './actor.js';
import { adaptModel } from './adapters.js';
import { AgentRollout, type RolloutExtensions } from './agent-rollout.js';
import {
  type CheckpointParts,
  loadParts,
  optimizerPart,
  saveParts,
  updatesPart,
  weightParts,
} from './checkpoint-parts.js';
import type { WorkerContext } from './context.js';
import { miniBatchRows, rowsPerPass, scoreBatch, shuffleSeed } from './language-model-worker.js';
import { MetricList } from './metric-list.js';
import { microBatches } from './micro-batches.js';
import { configOf, openTokenizer, saveTokenizerChoice } from './model-source.js';
import { acrossRanks, createOptimizer } from './optimizer-step.js';
import { packOptions, RECORDED_TOKENS, rowSource, SHARED_TOKENS } from './packing.js';
import { register } from './register.js';
import { trajectoriesToBatch } from './rollout-batch.js';
import { openRolloutEngine, samplesRemotely } from './rollout-engine.js';
import { memoryMetrics, startUtilization } from './utilization.js';

export function pickDevice(wanted: string): string {
  if (wanted !== 'auto') return wanted === 'cuda' ? 'cuda:0' : wanted;
  return buildInfo().cudaAvailable ? 'cuda:0' : 'cpu';
}

export class ActorRolloutRefWorker {
  static readonly source = { module: import.meta.url, export: 'ActorRolloutRefWorker' };
  static readonly methods = register({
    initModel: { dispatch: 'one_to_all' },
    generateSequences: { dispatch: 'dp_rows', columns: ['agent_row', 'row_id'] },
    computeLogProb: { dispatch: 'dp', columns: [] },
    computeRefLogProb: { dispatch: 'dp', columns: [] },
    updateActor: { dispatch: 'dp_update', columns: [] },
    sleep: { dispatch: 'one_to_all' },
    wake: { dispatch: 'one_to_all' },
    saveCheckpoint: { dispatch: 'one_to_all' },
    loadCheckpoint: { dispatch: 'one_to_all' },
  });

  tokenizer!: Tokenizer;
  model!: CausalLM;
  engine!: Engine;
  private reference: CausalLM | null = null;
  private lora: Lora | null = null;
  private optimizer!: AdamW;
  private updater!: ActorUpdater;
  private folder!: string;
  private agents!: AgentRollout;
  private tape: ActivationTape | null = null;
  private recordedStep: number | null | undefined = null;
  private readonly settings: PpoConfig['actor_rollout_ref'];
  private updates = 0;

  constructor(
    private readonly config: PpoConfig,
    private readonly context: WorkerContext,
    private readonly extensions: RolloutExtensions = {},
  ) {
    this.settings = config.actor_rollout_ref;
  }

  async initModel(options: { totalSteps: number; useReference: boolean }): Promise<void> {
    const { model: modelConfig, actor } = this.settings;
    manualSeed(actor.fsdp_config.seed ?? 42);
    this.folder = await resolveModel(modelConfig.path);
    this.tokenizer = await openTokenizer(modelConfig);
    const placement = {
      device: this.context.device,
      dtype: this.context.device === 'cpu' ? ('float32' as const) : ('bfloat16' as const),
    };
    const config = await configOf(this.folder, modelConfig);
    this.model = await loadCausalLM(this.folder, { ...placement, config });
    this.lora = await adaptModel(this.model, modelConfig);
    const { path: referencePath } = (this.settings.ref.model ?? {}) as { path?: string };
    // With an adapter the base is the reference, and no second copy is held.
    if (options.useReference && (referencePath || !this.lora)) {
      this.reference = referencePath
        ? await loadCausalLM(await resolveModel(referencePath), placement)
        : await loadCausalLM(this.folder, { ...placement, config });
      this.reference.setTrainable(false);
    }
    const { optim } = actor;
    const { optimizer, rate } = createOptimizer(this.model, optim, options.totalSteps);
    this.optimizer = optimizer;
    this.rate = rate;
    const lossConfig = {
      ...actor,
      rollout_correction: this.config.algorithm.rollout_correction,
      topKDistillation: topKDistillation(this.config),
    };
    this.updater = new ActorUpdater(this.model, this.optimizer, lossConfig as never, this.extensions.policyLoss);
    const { keep_activations_gb: gigabytes } = this.settings.rollout;
    if (!samplesRemotely(this.config))
      this.tape = ActivationTape.of(this.model, gigabytes * 2 ** 30, this.context.worldSize);
    this.engine = await openRolloutEngine({
      config: this.config,
      model: this.model,
      tokenizer: this.tokenizer,
      folder: this.folder,
      rank: this.context.rank,
      tape: this.tape,
    });
    this.agents = await AgentRollout.open(this.config, this.engine, this.tokenizer, this.extensions);
  }

  private rate: (updates: number) => number = () => 0;

  get padTokenId(): number {
    return this.tokenizer.padTokenId ?? this.tokenizer.eosTokenId ?? 0;
  }

  /**
   * Runs every row of the batch through its agent. Rows carry `agent_row`. Agent loops give one trajectory per row, in their
   * order; programs may give none or several: `row_id` says which row a trajectory came from.
   */
  async generateSequences(batch: DataProto): Promise<DataProto> {
    const { rollout } = this.settings;
    const rowIds = batch.column<number>('row_id');
    const validate = batch.metaInfo.validate === true;
    this.record(validate ? null : (batch.metaInfo.global_steps as number));
    const { trajectories, metrics } = await this.agents.run(batch.column<AgentRow>('agent_row'), {
      sampling: batch.metaInfo.sampling as SamplingParams,
      validate,
    });
    const output = trajectoriesToBatch(trajectories, {
      promptLength: rollout.prompt_length,
      responseLength: rollout.response_length,
      padTokenId: this.padTokenId,
    });
    output.setColumn(
      'row_id',
      trajectories.map(({ rowIndex }) => rowIds[rowIndex]),
    );
    output.metaInfo.metrics = metrics;
    return output;
  }

  /**
   * Writes down what is sampled for a training step, and nothing for validation (null). Each step begins anew: one that updated
   * nothing must not leave its successors without room, and what was computed for others has no record to go with it.
   */
  private record(step: number | null): void {
    const { tape } = this;
    if (!tape || step === this.recordedStep) return;
    this.recordedStep = step;
    tape.isOn = step !== null;
    if (!tape.isOn) return;
    tape.clear();
    this.engine.forgetPrefixes?.();
  }

  /** Free the key-value cache before training, get it back before sampling. */
  async sleep(): Promise<void> {
    // A server has devices of its own, and has to be awake to take new weights.
    if (this.settings.rollout.free_cache_engine && !samplesRemotely(this.config)) await this.engine.sleep();
  }

  async wake(): Promise<void> {
    await this.engine.wake();
  }

  /** `role` says whose settings the passes have: rollout's for the policy, ref's for the reference. */
  private score(model: CausalLM, batch: DataProto, role: 'rollout' | 'ref', tape: ActivationTape | null = null) {
    const sizes = this.settings[role];
    const rows = Array.from({ length: batch.length }, (_, k) => k);
    const size = rowsPerPass(
      sizes.log_prob_micro_batch_size_per_gpu,
      sizes.log_prob_micro_batch_size,
      this.context.worldSize,
    );
    const { share_prompts: sharePrompts } = this.settings.model;
    return scoreBatch(model, batch, {
      microBatches: microBatches(rowSource(batch), rows, {
        size: sizes.log_prob_use_dynamic_bsz ? null : size,
        budget: sizes.log_prob_max_token_len_per_gpu,
        pack: packOptions(model, sharePrompts),
      }),
      sharePrompts,
      temperature: this.settings.rollout.temperature || 1,
      entropy: role === 'rollout',
      sumPiSquared: batch.metaInfo.sumPiSquared === true,
      tape,
    });
  }

  async computeLogProb(batch: DataProto): Promise<DataProto> {
    const utilization = startUtilization(batch, { config: this.model.config, device: this.context.device, passes: 1 });
    const scores = this.score(this.model, batch, 'rollout', this.tape);
    const { logProbs, entropy, sumPiSquared, sharedTokens, recordedTokens } = scores;
    const tensors: Record<string, Tensor> = { old_log_probs: logProbs, entropys: entropy! };
    if (sumPiSquared) tensors.sum_pi_squared = sumPiSquared;
    return DataProto.fromDict({
      tensors,
      metaInfo: { metrics: { 'perf/mfu/actor_infer': utilization(sharedTokens + recordedTokens) } },
    });
  }

  async computeRefLogProb(batch: DataProto): Promise<DataProto> {
    if (!this.reference && !this.lora) throw new Error('this worker has no reference policy');
    const { logProbs } = this.reference
      ? this.score(this.reference, batch, 'ref')
      : this.lora!.without(() => this.score(this.model, batch, 'ref'));
    return DataProto.fromDict({ tensors: { ref_log_prob: logProbs } });
  }

  /** `ppo_epochs` passes over the batch in mini-batches; one optimizer step each. */
  async updateActor(batch: DataProto): Promise<DataProto> {
    const { actor, rollout, model } = this.settings;
    const metrics = new MetricList();
    const { worldSize } = this.context;
    const miniBatches = (epoch: number): number[][] =>
      miniBatchRows(batch, actor.ppo_mini_batch_size, rollout.n / worldSize, shuffleSeed(actor, this.updates, epoch));
    const size = rowsPerPass(actor.ppo_micro_batch_size_per_gpu, actor.ppo_micro_batch_size, worldSize);
    const source = rowSource(batch);
    const passes = 3 * actor.ppo_epochs;
    const utilization = startUtilization(batch, { config: this.model.config, device: this.context.device, passes });
    this.optimizer.lr = this.rate(this.updates);
    for (let epoch = 0; epoch < actor.ppo_epochs; epoch++)
      for (const rows of miniBatches(epoch)) {
        const micro = microBatches(source, rows, {
          size: actor.use_dynamic_bsz ? null : size,
          budget: actor.ppo_max_token_len_per_gpu,
          pack: packOptions(this.model, model.share_prompts),
        });
        this.updater.step(batch, micro, metrics, {
          temperature: rollout.temperature || 1,
          recompute: recomputePlan(model, this.context.device),
          sharePrompts: model.share_prompts,
          tape: this.tape,
          ...acrossRanks(this.context),
        });
        // The weights are others now.
        this.tape?.clear();
      }
    this.updates++;
    // Where sampling made the forward pass, two of three are left.
    const notComputed = metrics.total(SHARED_TOKENS) + metrics.total(RECORDED_TOKENS) / 3;
    metrics.add({ 'actor/lr': this.optimizer.lr, 'perf/mfu/actor': utilization(notComputed) });
    const start = performance.now();
    await this.agents.duringUpdate(() => this.engine.updateWeights());
    metrics.add({
      'timing_s/update_weights': (performance.now() - start) / 1000,
      ...memoryMetrics(this.context.device),
    });
    return DataProto.fromDict({ metaInfo: { metrics: metrics.lists() } });
  }

  private get parts(): CheckpointParts {
    const huggingface = {
      name: 'huggingface',
      save: async (target: string) => {
        await saveCausalLM(this.model, target, { source: this.folder });
        await saveTokenizerChoice(target, this.settings.model);
      },
    };
    return {
      ...weightParts(this.model, this.settings.model.path, { whole: huggingface, huggingface }),
      optimizer: optimizerPart(this.optimizer),
      extra: updatesPart(
        () => this.updates,
        (updates) => {
          this.updates = updates;
        },
      ),
    };
  }

  async saveCheckpoint(folder: string): Promise<void> {
    if (this.context.rank !== 0) return;
    await saveParts(folder, this.settings.actor.checkpoint, this.parts);
  }

  async loadCheckpoint(folder: string): Promise<void> {
    await loadParts(folder, 'actor_rollout_ref.actor.checkpoint', this.settings.actor.checkpoint, this.parts);
    await this.agents.duringUpdate(() => this.engine.updateWeights());
  }

  async close(): Promise<void> {
    // A model that could not be loaded has left these undefined, and its own error is the one to be seen.
    await this.agents?.close();
    await this.engine?.close();
    this.tape?.dispose();
    this.optimizer?.dispose();
    this.model?.dispose();
    this.reference?.dispose();
  }
}
