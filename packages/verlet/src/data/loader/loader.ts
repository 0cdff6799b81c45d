import { UserError } from '../../config/index.js';
import { EpochSampler, type SampleFeedback, type Sampler } from './sampler.js';

/** What the loader takes items from. */
export interface ItemSource<Item> {
  readonly length: number;
  items(indices: ArrayLike<number>): Promise<Item[]>;
}

export interface LoaderOptions {
  batchSize: number;
  shuffle?: boolean;
  seed?: number;
  /** Leave out the rest of an epoch that does not fill a batch. */
  dropLast?: boolean;
  /** Instead of `shuffle` and `seed`. */
  sampler?: Sampler;
}

/** Where a loader stands, as plain JSON. */
export interface LoaderState {
  version: 1;
  epoch: number;
  /** Batches of this epoch that were handed out. */
  batch: number;
  batchSize: number;
  length: number;
  sampler: unknown;
}

/**
 * Batches of items, epoch after epoch. `state()` between two batches is exact: a loader restored from it hands out the
 * batches that would have come.
 *
 * @example
 * for await (const batch of loader.epoch()) await step(batch);
 */
export class DataLoader<Item> {
  private readonly sampler: Sampler;
  private readonly dropLast: boolean;
  readonly batchSize: number;
  private currentEpoch = 0;
  private batch = 0;
  private isEpochStarted = false;

  constructor(
    private readonly source: ItemSource<Item>,
    options: LoaderOptions,
  ) {
    const { batchSize, shuffle = false, seed = 1, dropLast = false } = options;
    if (!Number.isInteger(batchSize) || batchSize < 1)
      throw new Error(`a batch needs at least one item, got ${batchSize}`);
    if (source.length === 0) throw new UserError('the dataset is empty');
    this.batchSize = batchSize;
    this.dropLast = dropLast;
    this.sampler = options.sampler ?? new EpochSampler(source.length, shuffle ? { seed } : null);
    this.checkFillsBatch();
  }

  get batchesPerEpoch(): number {
    const batches = this.sampler.epochLength / this.batchSize;
    return this.dropLast ? Math.floor(batches) : Math.ceil(batches);
  }

  /** The epoch of the batch that comes next. */
  get epochIndex(): number {
    return this.currentEpoch;
  }

  /** Batches of the current epoch that were handed out. */
  get batchIndex(): number {
    return this.batch;
  }

  /** The rest of the current epoch; afterwards the next one is current. */
  async *epoch(): AsyncGenerator<Item[]> {
    const epoch = this.currentEpoch;
    while (this.currentEpoch === epoch) yield await this.next();
  }

  /** The next batch; epochs follow each other without end. */
  async next(): Promise<Item[]> {
    if (!this.isEpochStarted) {
      this.sampler.startEpoch(this.currentEpoch);
      this.isEpochStarted = true;
      this.checkFillsBatch();
    }
    const left = this.sampler.epochLength - this.batch * this.batchSize;
    const indices = Array.from({ length: Math.min(this.batchSize, left) }, () => this.sampler.next());
    this.batch++;
    if (this.batch >= this.batchesPerEpoch) {
      this.currentEpoch++;
      this.batch = 0;
      this.isEpochStarted = false;
    }
    return this.source.items(indices);
  }

  private checkFillsBatch(): void {
    if (this.batchesPerEpoch > 0) return;
    throw new UserError(
      `an epoch has ${this.sampler.epochLength} items, fewer than one batch of ${this.batchSize}; lower ` +
        'data.train_batch_size or add data',
    );
  }

  /** Tells a curriculum how samples did; other samplers do not care. */
  update(feedback: readonly SampleFeedback[]): void {
    this.sampler.update?.(feedback);
  }

  state(): LoaderState {
    return {
      version: 1,
      epoch: this.currentEpoch,
      batch: this.batch,
      batchSize: this.batchSize,
      length: this.source.length,
      sampler: structuredClone(this.sampler.state()),
    };
  }

  restore(state: LoaderState): void {
    if (state.version !== 1) throw new Error(`the data state has version ${state.version}; this version reads 1`);
    if (state.length !== this.source.length || state.batchSize !== this.batchSize) {
      throw new Error(
        `the data state was saved with ${state.length} items in batches of ${state.batchSize}, now there are ` +
          `${this.source.length} in batches of ${this.batchSize}: it cannot be continued exactly. Use the same data and ` +
          'data.train_batch_size, or start without the data state',
      );
    }
    this.sampler.restore(structuredClone(state.sampler));
    this.currentEpoch = state.epoch;
    this.batch = state.batch;
    this.isEpochStarted = state.batch > 0;
  }
}
