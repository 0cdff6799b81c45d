import { permutation, uniform } from './random.js';

/** How a sample did, as the trainer reports it back. */
export interface SampleFeedback {
  index: number;
  score: number;
}

/** Decides which items come in which order. Given the same state it continues with the same sequence. */
export interface Sampler {
  /** How many items make an epoch. */
  readonly epochLength: number;
  /** Called before the first `next` of an epoch. */
  startEpoch(epoch: number): void;
  next(): number;
  /** Plain JSON, taken between two calls of `next`. */
  state(): unknown;
  restore(state: unknown): void;
  update?(feedback: readonly SampleFeedback[]): void;
}

interface Position {
  epoch: number;
  position: number;
}

/** Every item once per epoch, in order or in a seeded order of its own for each epoch. */
export class EpochSampler implements Sampler {
  private order: Int32Array | null = null;
  private at: Position = { epoch: 0, position: 0 };

  constructor(
    readonly epochLength: number,
    private readonly shuffle: { seed: number } | null,
  ) {}

  startEpoch(epoch: number): void {
    this.at = { epoch, position: 0 };
    this.order = this.orderOf(epoch);
  }

  next(): number {
    this.order ??= this.orderOf(this.at.epoch);
    return this.order[this.at.position++] as number;
  }

  state(): Position {
    return { ...this.at };
  }

  restore(state: unknown): void {
    this.at = { ...(state as Position) };
    this.order = null;
  }

  private orderOf(epoch: number): Int32Array {
    if (this.shuffle) return permutation(this.epochLength, this.shuffle.seed, epoch);
    return Int32Array.from({ length: this.epochLength }, (_, index) => index);
  }
}

/**
 * Draws from several sources by weight. Items are numbered through: those of the second source follow those of the first.
 * Each source goes round in seeded orders of its own, so a small source with a large weight is seen more often.
 */
export class MixingSampler implements Sampler {
  readonly epochLength: number;
  private readonly sources: { start: number; sampler: EpochSampler; length: number; bound: number }[] = [];
  private drawn = 0;
  /** Items taken from each source so far. */
  private taken: number[];

  constructor(
    lengths: readonly number[],
    weights: readonly number[],
    private readonly seed: number,
    epochLength?: number,
  ) {
    const sum = weights.reduce((total, weight) => total + weight, 0);
    if (weights.length !== lengths.length || !(sum > 0) || weights.some((weight) => !(weight >= 0))) {
      throw new Error(
        `${lengths.length} sources need as many weights, none negative, not all zero; got [${weights.join(', ')}]`,
      );
    }
    let start = 0;
    let bound = 0;
    lengths.forEach((length, index) => {
      const weight = weights[index] as number;
      if (length === 0 && weight > 0) throw new Error(`source ${index} is empty but has weight ${weight}`);
      bound += weight / sum;
      this.sources.push({ start, sampler: new EpochSampler(length, { seed: seed + index }), length, bound });
      start += length;
    });
    this.epochLength = epochLength ?? start;
    this.taken = lengths.map(() => 0);
  }

  startEpoch(): void {}

  next(): number {
    const draw = uniform(this.seed, this.drawn++);
    let choice = this.sources.findIndex(({ bound, length }) => draw < bound && length > 0);
    if (choice < 0) choice = this.sources.findLastIndex(({ length }) => length > 0);
    const { start, sampler, length } = this.sources[choice] as (typeof this.sources)[number];
    const count = this.taken[choice] as number;
    if (count % length === 0) sampler.startEpoch(count / length);
    this.taken[choice] = count + 1;
    return start + sampler.next();
  }

  state(): unknown {
    return { drawn: this.drawn, taken: [...this.taken] };
  }

  restore(state: unknown): void {
    const { drawn, taken } = state as { drawn: number; taken: number[] };
    this.drawn = drawn;
    this.taken = [...taken];
    this.sources.forEach(({ sampler, length }, index) => {
      const count = taken[index] as number;
      if (length > 0) sampler.restore({ epoch: Math.floor(count / length), position: count % length });
    });
  }
}

/** What a curriculum knows when it orders an epoch. */
export interface CurriculumContext {
  epoch: number;
  length: number;
  /** Mean score of each item that was sampled so far. */
  scores: ReadonlyMap<number, number>;
}

/** Returns the items of the coming epoch in the order wanted; items may be left out or repeated. */
export type Curriculum = (context: CurriculumContext) => ArrayLike<number>;

/** Asks a function for the order of every epoch and tells it how samples did. */
export class CurriculumSampler implements Sampler {
  private order: Int32Array = new Int32Array(0);
  private at: Position = { epoch: 0, position: 0 };
  private readonly totals = new Map<number, { sum: number; count: number }>();

  constructor(
    private readonly length: number,
    private readonly curriculum: Curriculum,
  ) {}

  get epochLength(): number {
    return this.order.length === 0 ? this.length : this.order.length;
  }

  startEpoch(epoch: number): void {
    const scores = new Map([...this.totals].map(([index, { sum, count }]) => [index, sum / count]));
    const order = Int32Array.from(this.curriculum({ epoch, length: this.length, scores }));
    const stray = order.find((index) => index < 0 || index >= this.length);
    if (order.length === 0 || stray !== undefined) {
      throw new Error(
        stray === undefined
          ? `the curriculum gave no items for epoch ${epoch}`
          : `the curriculum gave item ${stray}, but there are ${this.length}`,
      );
    }
    this.order = order;
    this.at = { epoch, position: 0 };
  }

  next(): number {
    return this.order[this.at.position++] as number;
  }

  update(feedback: readonly SampleFeedback[]): void {
    for (const { index, score } of feedback) {
      const { sum, count } = this.totals.get(index) ?? { sum: 0, count: 0 };
      this.totals.set(index, { sum: sum + score, count: count + 1 });
    }
  }

  // The order is kept whole: it was made from scores that may since have changed.
  state(): unknown {
    return { ...this.at, order: [...this.order], totals: [...this.totals] };
  }

  restore(state: unknown): void {
    const { epoch, position, order, totals } = state as Position & {
      order: number[];
      totals: [number, { sum: number; count: number }][];
    };
    this.at = { epoch, position };
    this.order = Int32Array.from(order);
    this.totals.clear();
    for (const [index, total] of totals) this.totals.set(index, { ...total });
  }
}
