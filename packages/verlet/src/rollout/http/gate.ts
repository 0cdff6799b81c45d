/** Lets a limited number of requests through at a time, and none while it is held. */
export class Gate {
  private running = 0;
  private holds = 0;
  private readonly queue: (() => void)[] = [];
  private readonly idle: (() => void)[] = [];

  constructor(private readonly limit: number) {}

  /** Resolves when there is a place; gives up, without taking one, when `signal` aborts. */
  async enter(signal: AbortSignal): Promise<boolean> {
    if (signal.aborted) return false;
    if (this.holds === 0 && this.running < this.limit) {
      this.running++;
      return true;
    }
    return new Promise((resolve) => {
      const admit = () => {
        signal.removeEventListener('abort', giveUp);
        this.running++;
        resolve(true);
      };
      const giveUp = () => {
        this.queue.splice(this.queue.indexOf(admit), 1);
        resolve(false);
      };
      this.queue.push(admit);
      signal.addEventListener('abort', giveUp, { once: true });
    });
  }

  leave(): void {
    this.running--;
    if (this.running === 0) for (const resolve of this.idle.splice(0)) resolve();
    this.admit();
  }

  /** Holds newcomers back until the returned function is called. */
  hold(): () => void {
    this.holds++;
    let isHeld = true;
    return () => {
      if (!isHeld) return;
      isHeld = false;
      this.holds--;
      this.admit();
    };
  }

  async drained(): Promise<void> {
    if (this.running > 0) await new Promise<void>((resolve) => this.idle.push(resolve));
  }

  private admit(): void {
    while (this.holds === 0 && this.running < this.limit && this.queue.length > 0) this.queue.shift()!();
  }
}
