/** A queue in front of a server: filled at once, emptied in the background, patient with a server that is away. */

/** The server will never take this: trying again is no use. */
export class RefusedError extends Error {
  override readonly name = 'RefusedError';
}

export interface DeliveryOptions<Item> {
  name: string;
  /** Sends some items, in order. Throws `RefusedError` when they can never be sent, anything else to be tried again. */
  send: (items: readonly Item[]) => Promise<void>;
  /** Items per call. */
  batchSize: number;
  /** Items that wait at most; beyond it the oldest go. They are in metrics.jsonl anyway. */
  capacity?: number;
  /** Seconds before the first and between the last of the new attempts. */
  retrySeconds?: { first: number; longest: number };
  onTrouble: (text: string) => void;
}

export class Delivery<Item> {
  private readonly waiting: Item[] = [];
  private running: Promise<void> | null = null;
  private failures = 0;
  private dropped = 0;
  private refused = false;
  private wakeUp: (() => void) | null = null;
  private closing = false;

  constructor(private readonly options: DeliveryOptions<Item>) {}

  add(...items: Item[]): void {
    if (this.refused) return;
    this.waiting.push(...items);
    const excess = this.waiting.length - (this.options.capacity ?? 100_000);
    if (excess > 0) {
      this.waiting.splice(0, excess);
      this.dropped += excess;
    }
    this.running ??= this.work().finally(() => {
      this.running = null;
    });
  }

  /** Waits until all is sent, at most so long. */
  async finish(seconds: number): Promise<void> {
    this.closing = true;
    this.wakeUp?.();
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, seconds * 1000);
    });
    await Promise.race([this.running ?? Promise.resolve(), late]);
    clearTimeout(timer);
    const lost = this.dropped + this.waiting.length;
    this.refused = true;
    this.wakeUp?.();
    if (lost > 0)
      this.options.onTrouble(`${this.options.name}: ${lost} entries were not delivered; metrics.jsonl has them all`);
    this.waiting.length = 0;
  }

  private async work(): Promise<void> {
    while (this.waiting.length > 0 && !this.refused) {
      const batch = this.waiting.slice(0, this.options.batchSize);
      try {
        await this.options.send(batch);
        this.waiting.splice(0, batch.length);
        this.failures = 0;
      } catch (error) {
        await this.afterFailure(error as Error);
      }
    }
  }

  private async afterFailure(error: Error): Promise<void> {
    const { name, onTrouble, retrySeconds = { first: 1, longest: 60 } } = this.options;
    if (error instanceof RefusedError) {
      onTrouble(`${name}: ${error.message}; nothing more is sent there, metrics.jsonl has everything`);
      this.refused = true;
      this.waiting.length = 0;
      return;
    }
    this.failures++;
    if (this.failures === 1) onTrouble(`${name}: ${error.message}; trying again in the background`);
    const seconds = Math.min(retrySeconds.first * 2 ** (this.failures - 1), retrySeconds.longest);
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, (this.closing ? retrySeconds.first : seconds) * 1000);
      // A server that is away must not keep a finished process alive.
      timer.unref();
      this.wakeUp = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    this.wakeUp = null;
  }
}
