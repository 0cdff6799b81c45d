/** The critic's role on one rank: values of states, and its own training. */
import { type AdamW, manualSeed, saveSafetensors } from '@verlet/torch';
import type { PpoConfig } from '../config/index.js';
import { resolveModel } from '../models/hub/index.js';
import { recomputePlan } from '../models/recompute.js';
import { loadValueModel, saveValueModel, type ValueModel } from '../models/value-model.js';
import { DataProto } from '../protocol/index.js';
import { adaptModel } from './adapters.js';
import {
  type CheckpointParts,
  loadParts,
  optimizerPart,
  saveParts,
  updatesPart,
  weightParts,
} from './checkpoint-parts.js';
import type { WorkerContext } from './context.js';
import { CriticUpdater, computeValues } from './critic.js';
import { miniBatchRows, rowsPerPass, shuffleSeed } from './language-model-worker.js';
import { MetricList } from './metric-list.js';
import { microBatches } from './micro-batches.js';
import { configOf } from './model-source.js';
import { acrossRanks, createOptimizer } from './optimizer-step.js';
import { packOptions, type RowSource, rowSource, SHARED_TOKENS } from './packing.js';
import { register } from './register.js';
import { startUtilization } from './utilization.js';

export class CriticWorker {
  static readonly source = { module: import.meta.url, export: 'CriticWorker' };
  static readonly methods = register({
    initModel: { dispatch: 'one_to_all' },
    computeValues: { dispatch: 'dp', columns: [] },
    updateCritic: { dispatch: 'dp_update', columns: [] },
    saveCheckpoint: { dispatch: 'one_to_all' },
    loadCheckpoint: { dispatch: 'one_to_all' },
  });

  private model!: ValueModel;
  private folder!: string;
  private optimizer!: AdamW;
  private updater!: CriticUpdater;
  private rate: (updates: number) => number = () => 0;
  private updates = 0;
  private readonly settings: PpoConfig['critic'];

  constructor(
    private readonly config: PpoConfig,
    private readonly context: WorkerContext,
  ) {
    this.settings = config.critic;
  }

  async initModel(options: { totalSteps: number }): Promise<void> {
    const { model, optim } = this.settings;
    // The value head starts from random numbers: the same on every rank and in every run.
    manualSeed(model.fsdp_config.seed);
    this.folder = await resolveModel(model.path);
    this.model = await loadValueModel(this.folder, {
      device: this.context.device,
      dtype: this.context.device === 'cpu' ? 'float32' : 'bfloat16',
      config: await configOf(this.folder, model),
    });
    await adaptModel(this.model, model);
    const { optimizer, rate } = createOptimizer(this.model, optim, options.totalSteps);
    this.optimizer = optimizer;
    this.rate = rate;
    this.updater = new CriticUpdater(this.model, this.optimizer, this.settings as never);
  }

  private microBatches(source: RowSource, rows: readonly number[], size: number | null, budget: number): number[][] {
    const pack = packOptions(this.model, this.settings.model.share_prompts);
    return microBatches(source, rows, { size: this.settings.use_dynamic_bsz ? null : size, budget, pack });
  }

  async computeValues(batch: DataProto): Promise<DataProto> {
    const rows = Array.from({ length: batch.length }, (_, k) => k);
    const micro = this.microBatches(
      rowSource(batch),
      rows,
      rowsPerPass(
        this.settings.forward_micro_batch_size_per_gpu,
        this.settings.forward_micro_batch_size,
        this.context.worldSize,
      ),
      this.settings.forward_max_token_len_per_gpu,
    );
    return DataProto.fromDict({
      tensors: { values: computeValues(this.model, batch, micro, { sharePrompts: this.settings.model.share_prompts }) },
    });
  }

  async updateCritic(batch: DataProto): Promise<DataProto> {
    const { settings } = this;
    const metrics = new MetricList();
    const n = this.config.actor_rollout_ref.rollout.n;
    const { worldSize } = this.context;
    const size = rowsPerPass(settings.ppo_micro_batch_size_per_gpu, settings.ppo_micro_batch_size, worldSize);
    const miniBatches = (epoch: number): number[][] =>
      miniBatchRows(batch, settings.ppo_mini_batch_size, n / worldSize, shuffleSeed(settings, this.updates, epoch));
    const utilization = startUtilization(batch, {
      config: this.model.config,
      device: this.context.device,
      headRows: 1,
      passes: 3 * settings.ppo_epochs,
    });
    this.optimizer.lr = this.rate(this.updates);
    const source = rowSource(batch);
    for (let epoch = 0; epoch < settings.ppo_epochs; epoch++)
      for (const rows of miniBatches(epoch))
        this.updater.step(batch, this.microBatches(source, rows, size, settings.ppo_max_token_len_per_gpu), metrics, {
          temperature: 1,
          recompute: recomputePlan(settings.model, this.context.device),
          sharePrompts: settings.model.share_prompts,
          ...acrossRanks(this.context),
        });
    this.updates++;
    metrics.add({ 'critic/lr': this.optimizer.lr, 'perf/mfu/critic': utilization(metrics.total(SHARED_TOKENS)) });
    return DataProto.fromDict({ metaInfo: { metrics: metrics.lists() } });
  }

  private get parts(): CheckpointParts {
    const { model } = this;
    return {
      ...weightParts(model, this.settings.model.path, {
        whole: {
          name: 'model.safetensors',
          save: (file) => void saveSafetensors(file, model.stateEntries()),
        },
        huggingface: {
          name: 'huggingface',
          save: (folder) => saveValueModel(model, folder, { kind: 'token', source: this.folder }),
        },
      }),
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
    await saveParts(folder, this.settings.checkpoint, this.parts);
  }

  async loadCheckpoint(folder: string): Promise<void> {
    await loadParts(folder, 'critic.checkpoint', this.settings.checkpoint, this.parts);
  }

  async close(): Promise<void> {
    this.optimizer?.dispose();
    this.model?.dispose();
  }
}
