/** What learns from batches of examples, whatever its loss: fine-tuning, preferences, reward models. */
import type { nn } from '@verlet/torch';
import type { SftConfig } from '../../config/index.js';
import { type CheckpointParts, loadParts, saveParts } from '../../workers/checkpoint-parts.js';
import { type ModelSource, trainedParts } from './model.js';
import type { ScheduledOptimizer } from './optimizer.js';

export interface Learner<Item> {
  /** One optimiser step. `progress` is the number of finished steps; the schedule follows it. */
  step(items: readonly Item[], progress: number): Record<string, number> | Promise<Record<string, number>>;
  /** Means over held-out examples, under `val/`. They come in several calls; `weight` says what each counts. */
  validate(items: readonly Item[]): Validation | Promise<Validation>;
  saveCheckpoint(folder: string): Promise<void>;
  loadCheckpoint(folder: string): Promise<void>;
  close(): void | Promise<void>;
}

export interface Validation {
  metrics: Record<string, number>;
  weight: number;
}

/** The part of a learner that does not depend on its loss: a model with its optimiser, saved and read as the settings say. */
export abstract class ModelLearner<Model extends nn.Module> {
  constructor(
    protected readonly config: SftConfig,
    protected readonly source: ModelSource,
    readonly model: Model,
    protected readonly optim: ScheduledOptimizer,
  ) {}

  /** Writes a folder that transformers loads. */
  protected abstract saveModel(folder: string): Promise<void>;

  private get parts(): CheckpointParts {
    const { model, optim, config } = this;
    return trainedParts(model, optim.optimizer, config.model.partial_pretrain, (folder) => this.saveModel(folder));
  }

  saveCheckpoint(folder: string): Promise<void> {
    return saveParts(folder, this.config.checkpoint, this.parts);
  }

  loadCheckpoint(folder: string): Promise<void> {
    return loadParts(folder, 'checkpoint', this.config.checkpoint, this.parts);
  }

  close(): void {
    this.optim.optimizer.dispose();
    this.model.dispose();
  }
}
