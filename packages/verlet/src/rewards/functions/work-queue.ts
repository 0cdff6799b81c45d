/** Hands tasks to a fixed set of workers, one task per worker at a time, in the order they came. */
export class WorkQueue<Worker> {
  private readonly idle: Worker[];
  private readonly waiting: ((worker: Worker) => void)[] = [];

  constructor(workers: readonly Worker[]) {
    this.idle = [...workers];
  }

  async run<T>(task: (worker: Worker) => Promise<T>): Promise<T> {
    const worker = this.idle.pop() ?? (await new Promise<Worker>((resolve) => this.waiting.push(resolve)));
    try {
      return await task(worker);
    } finally {
      const next = this.waiting.shift();
      if (next) next(worker);
      else this.idle.push(worker);
    }
  }
}
