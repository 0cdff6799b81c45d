import type { Box } from './box.js';

export interface PoolOptions {
  size: number;
  /** A box is replaced after this many programs even if nothing went wrong in it. */
  programsPerBox: number;
  start(): Promise<Box>;
}

/** At most `size` boxes, started when first needed, handed out one program at a time in the order of asking. */
export class BoxPool {
  readonly #options: PoolOptions;
  readonly #idle: Box[] = [];
  readonly #waiting: (() => void)[] = [];
  readonly #all = new Set<Box>();
  #taken = 0;
  #isClosed = false;

  constructor(options: PoolOptions) {
    this.#options = options;
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  async use<T>(work: (box: Box) => Promise<T>): Promise<T> {
    if (this.#taken >= this.#options.size) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    else this.#taken += 1;
    // From here on this call owns one of the `size` places, and passes it on at the end.
    let box: Box | undefined;
    try {
      if (this.#isClosed) throw new Error('the sandbox was closed');
      box = await this.#take();
      return await work(box);
    } finally {
      if (box) this.#giveBack(box);
      const next = this.#waiting.shift();
      if (next) next();
      else this.#taken -= 1;
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all([...this.#all].map((box) => box.close()));
    this.#all.clear();
    this.#idle.length = 0;
  }

  async #take(): Promise<Box> {
    for (let box = this.#idle.pop(); box; box = this.#idle.pop()) {
      if (box.isUsable) return box;
      this.#drop(box);
    }
    const box = await this.#options.start();
    this.#all.add(box);
    if (this.#isClosed) {
      this.#drop(box);
      throw new Error('the sandbox was closed');
    }
    return box;
  }

  #giveBack(box: Box): void {
    if (box.isUsable && box.jobsDone < this.#options.programsPerBox) this.#idle.push(box);
    else this.#drop(box);
  }

  #drop(box: Box): void {
    this.#all.delete(box);
    void box.close();
  }
}
