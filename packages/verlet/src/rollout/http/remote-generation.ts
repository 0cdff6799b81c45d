import type { FinishReason, Generation, GenerationOutput, TokenEvent } from '../types.js';

/** A generation that is fed from outside; may be awaited and iterated, from the first token on, any number of times. */
export class RemoteGeneration implements Generation {
  readonly output: Promise<GenerationOutput>;
  readonly events: TokenEvent[] = [];
  numCachedTokens = 0;
  private settle!: { resolve: (output: GenerationOutput) => void; reject: (error: unknown) => void };
  private isOver = false;
  private readonly waiting = new Set<() => void>();

  constructor(
    readonly id: string,
    private readonly hasTopLogProbs: boolean,
  ) {
    this.output = new Promise((resolve, reject) => {
      this.settle = { resolve, reject };
    });
    this.output.catch(() => {}); // Whoever iterates sees the failure too; neither way of reading is obligatory.
  }

  push(event: TokenEvent): void {
    this.events.push(event);
    this.wakeReaders();
  }

  finish(finishReason: FinishReason, stopReason: number | string | null): void {
    this.settle.resolve({
      id: this.id,
      tokenIds: this.events.map((event) => event.tokenId),
      logProbs: this.events.map((event) => event.logProb),
      ...(this.hasTopLogProbs ? { topLogProbs: this.events.map((event) => event.topLogProbs ?? []) } : {}),
      finishReason,
      stopReason,
      weightVersions: this.events.map((event) => event.weightVersion),
      numCachedTokens: this.numCachedTokens,
    });
    this.end();
  }

  fail(error: unknown): void {
    this.settle.reject(error);
    this.end();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<TokenEvent> {
    for (let at = 0; ; at++) {
      while (at >= this.events.length && !this.isOver) {
        await new Promise<void>((resolve) => this.waiting.add(resolve));
      }
      if (at >= this.events.length) break;
      yield this.events[at]!;
    }
    await this.output;
  }

  private end(): void {
    this.isOver = true;
    this.wakeReaders();
  }

  private wakeReaders(): void {
    for (const wake of this.waiting) wake();
    this.waiting.clear();
  }
}
