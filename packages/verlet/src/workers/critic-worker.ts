/** The critic's role on one rank: values of states, and its own training. */
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { type AdamW, manualSeed, saveSafetensors, type Tensor } from '@verlet/torch';
import { rearrangeMicroBatches } from '../algorithms/index.js';
import type { PpoConfig } from '../config/index.js';
import { loadWeights } from '../models/checkpoint.js';
import { resolveModel } from '../models/hub/index.js';
import type { Lora } from '../models/lora.js';
import { loadAdapter, saveAdapter } from '../models/lora-files.js';
import { loadValueModel, type ValueModel } from '../models/value-model.js';
import { DataProto } from '../protocol/index.js';
import { adaptModel } from './adapters.js';
import type { WorkerContext } from './context.js';
import { CriticUpdater, computeValues } from './critic.js';
import {
  fixedMicroBatches,
  miniBatchRows,
  rowsPerPass,
  sequenceLengths,
  shuffleSeed,
} from './language-model-worker.js';
import { MetricList } from './metric-list.js';
import { createOptimizer } from './optimizer-step.js';
import { rowSource } from './packing.js';
import { register } from './register.js';

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
  private lora: Lora | null = null;
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
    manualSeed(this.config.actor_rollout_ref.actor.fsdp_config.seed ?? 42);
    const folder = await resolveModel(model.path);
    this.model = await loadValueModel(folder, {
      device: this.context.device,
      dtype: this.context.device === 'cpu' ? 'float32' : 'bfloat16',
    });
    this.lora = await adaptModel(this.model, model);
    const { optimizer, rate } = createOptimizer(this.model, optim, options.totalSteps);
    this.optimizer = optimizer;
    this.rate = rate;
    this.updater = new CriticUpdater(this.model, this.optimizer, this.settings as never);
  }

  private microBatches(
    batch: DataProto,
    rows: readonly number[],
    size: number | null | undefined,
    budget: number,
  ): number[][] {
    if (!this.settings.use_dynamic_bsz && size) return fixedMicroBatches(rows, size);
    const lengths = sequenceLengths(rowSource(batch));
    return rearrangeMicroBatches(
      rows.map((row) => lengths[row]!),
      budget,
    ).map((part) => part.map((k) => rows[k]!));
  }

  async computeValues(batch: DataProto): Promise<DataProto> {
    const rows = Array.from({ length: batch.length }, (_, k) => k);
    const micro = this.microBatches(
      batch,
      rows,
      rowsPerPass(
        this.settings.forward_micro_batch_size_per_gpu,
        this.settings.forward_micro_batch_size,
        this.context.worldSize,
      ),
      this.settings.forward_max_token_len_per_gpu,
    );
    return DataProto.fromDict({ tensors: { values: computeValues(this.model, batch, micro) } });
  }

  async updateCritic(batch: DataProto): Promise<DataProto> {
    const { settings } = this;
    const metrics = new MetricList();
    const n = this.config.actor_rollout_ref.rollout.n;
    const { worldSize } = this.context;
    const size = rowsPerPass(settings.ppo_micro_batch_size_per_gpu, settings.ppo_micro_batch_size, worldSize);
    const miniBatches = (epoch: number): number[][] =>
      miniBatchRows(batch, settings.ppo_mini_batch_size, n / worldSize, shuffleSeed(settings, this.updates, epoch));
    this.optimizer.lr = this.rate(this.updates);
    for (let epoch = 0; epoch < settings.ppo_epochs; epoch++)
      for (const rows of miniBatches(epoch))
        this.updater.step(batch, this.microBatches(batch, rows, size, settings.ppo_max_token_len_per_gpu), metrics, {
          temperature: 1,
          recompute: settings.model.enable_gradient_checkpointing && this.context.device !== 'cpu',
          dpSize: this.context.worldSize,
          sumOverRanks: (value) => this.context.sum(value),
          reduceGradients: this.context.worldSize > 1 ? (gradients) => this.averageGradients(gradients) : undefined,
        });
    this.updates++;
    metrics.add({ 'critic/lr': this.optimizer.lr });
    return DataProto.fromDict({ metaInfo: { metrics: metrics.lists() } });
  }

  private averageGradients(gradients: ReadonlyMap<string, Tensor>): void {
    this.context.allReduce(gradients.values());
    for (const gradient of gradients.values()) gradient.div_(this.context.worldSize);
  }

  async saveCheckpoint(folder: string): Promise<void> {
    if (this.context.rank !== 0) return;
    if (this.lora)
      await saveAdapter(this.model, path.join(folder, 'lora_adapter'), { baseModel: this.settings.model.path });
    else saveSafetensors(path.join(folder, 'model.safetensors'), this.model.stateEntries());
    this.optimizer.save(path.join(folder, 'optimizer.safetensors'));
    await writeFile(path.join(folder, 'state.json'), `${JSON.stringify({ updates: this.updates })}\n`);
  }

  async loadCheckpoint(folder: string): Promise<void> {
    if (this.lora) await loadAdapter(this.model, path.join(folder, 'lora_adapter'));
    else loadWeights(this.model, path.join(folder, 'model.safetensors'));
    this.optimizer.load(path.join(folder, 'optimizer.safetensors'));
    this.updates = (JSON.parse(await readFile(path.join(folder, 'state.json'), 'utf8')) as { updates: number }).updates;
  }

  async close(): Promise<void> {
    this.optimizer?.dispose();
    this.model?.dispose();
  }
}
