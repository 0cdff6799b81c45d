/** Fine-tuning on several ranks: each has the whole model and learns from its share of every batch; gradients are averaged. */
import { type SftConfig, UserError } from '../../config/index.js';
import { launchGroup, register, type WorkerContext, type WorkerGroup } from '../../controller/index.js';
import type { SftItem } from '../../data/index.js';
import { pickDevice } from '../../workers/actor-rollout-ref.js';
import type { Learner, Validation } from './learner.js';
import { openModelSource } from './model.js';
import { SftLearner } from './sft-learner.js';

/** What runs on a rank. */
export class SftWorker {
  static readonly source = { module: import.meta.url, export: 'SftWorker' };
  static readonly methods = register({
    open: { dispatch: 'one_to_all' },
    step: { dispatch: 'all_to_all' },
    validate: { dispatch: 'all_to_all' },
    saveCheckpoint: { dispatch: 'one_to_all' },
    loadCheckpoint: { dispatch: 'one_to_all' },
  });
  private learner!: SftLearner;

  constructor(
    private readonly config: SftConfig,
    private readonly context: WorkerContext,
  ) {}

  async open(totalSteps: number): Promise<void> {
    this.learner = await SftLearner.create(this.config, await openModelSource(this.config), totalSteps, this.context);
  }

  async step(items: readonly SftItem[], progress: number): Promise<Record<string, number>> {
    return this.learner.step(items, progress);
  }

  async validate(items: readonly SftItem[]): Promise<Validation> {
    return this.learner.validate(items);
  }

  /** The ranks are alike: one of them writes. */
  async saveCheckpoint(folder: string): Promise<void> {
    if (this.context.rank === 0) await this.learner.saveCheckpoint(folder);
  }

  loadCheckpoint(folder: string): Promise<void> {
    return this.learner.loadCheckpoint(folder);
  }

  close(): void {
    this.learner?.close();
  }
}

export class RankedSftLearner implements Learner<SftItem> {
  private constructor(
    private readonly group: WorkerGroup<typeof SftWorker>,
    private readonly worldSize: number,
  ) {}

  static async create(config: SftConfig, totalSteps: number): Promise<RankedSftLearner> {
    const { nnodes, n_gpus_per_node: worldSize, launcher, worker_timeout: timeoutSeconds, device } = config.trainer;
    if (nnodes > 1 || launcher === 'ray')
      throw new UserError('fine-tuning runs on one machine: set trainer.nnodes=1 and trainer.launcher=process', {
        exitCode: 2,
      });
    if (launcher === 'inline')
      throw new UserError(`trainer.n_gpus_per_node=${worldSize} wants processes; use trainer.launcher=process`, {
        exitCode: 2,
      });
    const kind = pickDevice(device).replace(/:.*/, '');
    const group = await launchGroup(SftWorker, {
      config,
      launcher: 'process',
      worldSize,
      device: kind,
      timeoutSeconds,
    });
    const learner = new RankedSftLearner(group, worldSize);
    try {
      await group.open(totalSteps);
      return learner;
    } catch (error) {
      await group.close();
      throw error;
    }
  }

  async step(items: readonly SftItem[], progress: number): Promise<Record<string, number>> {
    const shares = this.deal(items);
    const results = await this.group.step(
      shares,
      shares.map(() => progress),
    );
    const tokens = results.reduce((sum, metrics) => sum + metrics['train/tokens']!, 0);
    return { ...results[0]!, 'train/tokens': tokens };
  }

  async validate(items: readonly SftItem[]): Promise<Validation> {
    const parts = await this.group.validate(this.deal(items));
    const weight = parts.reduce((sum, part) => sum + part.weight, 0);
    const loss = parts.reduce((sum, part) => sum + part.metrics['val/loss']! * part.weight, 0) / Math.max(1, weight);
    return { metrics: { 'val/loss': loss }, weight };
  }

  async saveCheckpoint(folder: string): Promise<void> {
    await this.group.saveCheckpoint(folder);
  }

  async loadCheckpoint(folder: string): Promise<void> {
    await this.group.loadCheckpoint(folder);
  }

  close(): Promise<void> {
    return this.group.close();
  }

  /** The longest to whoever has the least, so that nobody waits long. */
  private deal(items: readonly SftItem[]): SftItem[][] {
    const shares = Array.from({ length: this.worldSize }, () => ({ items: [] as SftItem[], tokens: 0 }));
    const most = Math.ceil(items.length / this.worldSize);
    for (const item of [...items].sort((a, b) => b.inputIds.length - a.inputIds.length)) {
      const open = shares.filter((share) => share.items.length < most);
      const share = open.reduce((least, other) => (other.tokens < least.tokens ? other : least));
      share.items.push(item);
      share.tokens += item.inputIds.length;
    }
    return shares.map((share) => share.items);
  }
}
