/** Limits of a scoring service: how many requests at once, per minute, and how many tokens per minute. */
export interface RateLimits {
  max_concurrent?: number;
  max_rpm?: number;
  max_tpm?: number;
}

/** Time, so that tests need none of it. */
export interface Clock {
  now(): number;
  sleep(ms: number): Promise<void>;
}

export const systemClock: Clock = {
  now: () => performance.now(),
  sleep: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
};

/** A bucket of a minute's allowance that refills steadily; waiters are served in order. */
class TokenBucket {
  private level: number;
  private filledAt: number;
  private queue: Promise<void> = Promise.resolve();

  constructor(
    private readonly perMinute: number,
    private readonly clock: Clock,
  ) {
    if (!(perMinute > 0)) throw new RangeError(`a rate limit must be positive, but it is ${perMinute}`);
    this.level = perMinute;
    this.filledAt = clock.now();
  }

  take(amount: number): Promise<void> {
    // A request larger than the bucket would wait for ever: it takes the whole bucket instead.
    const wanted = Math.min(amount, this.perMinute);
    const turn = this.queue.then(() => this.waitFor(wanted));
    this.queue = turn;
    return turn;
  }

  private async waitFor(amount: number): Promise<void> {
    for (;;) {
      const now = this.clock.now();
      this.level = Math.min(this.perMinute, this.level + ((now - this.filledAt) / 60_000) * this.perMinute);
      this.filledAt = now;
      // The margin absorbs rounding of the refill; without it a wait could end a hair too early, again and again.
      if (this.level >= amount - 1e-9) break;
      await this.clock.sleep(Math.max(1, ((amount - this.level) / this.perMinute) * 60_000));
    }
    this.level -= amount;
  }
}

/** Lets a task run when all limits allow it. */
export class RateLimiter {
  private readonly requests: TokenBucket | undefined;
  private readonly tokens: TokenBucket | undefined;
  private running = 0;
  private readonly waiting: (() => void)[] = [];

  constructor(
    private readonly limits: RateLimits,
    clock: Clock = systemClock,
  ) {
    if (limits.max_rpm !== undefined) this.requests = new TokenBucket(limits.max_rpm, clock);
    if (limits.max_tpm !== undefined) this.tokens = new TokenBucket(limits.max_tpm, clock);
    if (limits.max_concurrent !== undefined && !(limits.max_concurrent >= 1)) {
      throw new RangeError(`max_concurrent must be at least 1, but it is ${limits.max_concurrent}`);
    }
  }

  async run<T>(estimatedTokens: number, task: () => Promise<T>): Promise<T> {
    await this.enter();
    try {
      await this.requests?.take(1);
      await this.tokens?.take(estimatedTokens);
      return await task();
    } finally {
      this.leave();
    }
  }

  private async enter(): Promise<void> {
    if (this.running >= (this.limits.max_concurrent ?? Number.POSITIVE_INFINITY)) {
      await new Promise<void>((resolve) => this.waiting.push(resolve)); // the slot is handed over, not freed
    } else {
      this.running += 1;
    }
  }

  private leave(): void {
    const next = this.waiting.shift();
    if (next) next();
    else this.running -= 1;
  }
}
