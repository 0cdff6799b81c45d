/** One request on its way through the engine. */
import type { IncrementalDetokenizer } from '../models/tokenizer/index.js';
import { BlockKeys } from './blocks.js';
import type { CompleteSamplingParams } from './sampling-params.js';
import type { FinishReason, Generation, GenerationOutput, TokenEvent, TopLogProb } from './types.js';

export class Sequence implements Generation {
  /** Prompt, then what was sampled. */
  readonly tokens: number[];
  readonly promptLength: number;
  readonly logProbs: number[] = [];
  readonly weightVersions: number[] = [];
  readonly topLogProbs: TopLogProb[][] = [];
  readonly blockKeys: BlockKeys;
  /** Cache blocks, in order of position. */
  blocks: number[] = [];
  /** Tokens whose keys and values are in the cache. */
  numComputed = 0;
  /** Prompt tokens that were found in the cache when the request was first admitted. */
  numCachedTokens = 0;
  finishReason: FinishReason | null = null;
  stopReason: number | string | null = null;
  /** How many tokens may be sampled at most, context length considered. */
  readonly maxTokens: number;
  readonly seed: number;
  readonly output: Promise<GenerationOutput>;
  detokenizer: IncrementalDetokenizer | null = null;
  text = '';

  private resolveOutput!: (output: GenerationOutput) => void;
  private rejectOutput!: (error: Error) => void;
  private events: TokenEvent[] | null = null;
  private wake: (() => void) | null = null;
  private failure: Error | null = null;

  constructor(
    readonly id: string,
    prompt: ArrayLike<number>,
    readonly sampling: CompleteSamplingParams,
    readonly sampleIndex: number,
    options: { blockSize: number; maxModelLength: number; seed: number },
  ) {
    this.tokens = Array.from(prompt);
    this.promptLength = this.tokens.length;
    this.maxTokens = Math.min(sampling.maxTokens, options.maxModelLength - this.promptLength);
    this.seed = options.seed;
    this.blockKeys = new BlockKeys(options.blockSize);
    this.output = new Promise((resolve, reject) => {
      this.resolveOutput = resolve;
      this.rejectOutput = reject;
    });
    // A caller that only iterates never looks at the promise; its rejection reaches them through the iterator.
    this.output.catch(() => {});
  }

  get numOutput(): number {
    return this.tokens.length - this.promptLength;
  }

  get isFinished(): boolean {
    return this.finishReason !== null || this.failure !== null;
  }

  push(tokenId: number, logProb: number, weightVersion: number, topLogProbs?: TopLogProb[]): void {
    this.tokens.push(tokenId);
    this.logProbs.push(logProb);
    this.weightVersions.push(weightVersion);
    if (topLogProbs) this.topLogProbs.push(topLogProbs);
    if (this.events) {
      this.events.push({ tokenId, logProb, weightVersion, ...(topLogProbs ? { topLogProbs } : {}) });
      this.wake?.();
    }
  }

  finish(reason: FinishReason, stopReason: number | string | null = null): void {
    if (this.isFinished) return;
    this.finishReason = reason;
    this.stopReason = stopReason;
    this.resolveOutput({
      id: this.id,
      tokenIds: this.tokens.slice(this.promptLength),
      logProbs: this.logProbs,
      ...(this.sampling.topLogProbs > 0 ? { topLogProbs: this.topLogProbs } : {}),
      finishReason: reason,
      stopReason,
      weightVersions: this.weightVersions,
      numCachedTokens: this.numCachedTokens,
    });
    this.wake?.();
  }

  fail(error: Error): void {
    if (this.isFinished) return;
    this.failure = error;
    this.rejectOutput(error);
    this.wake?.();
  }

  async *[Symbol.asyncIterator](): AsyncIterator<TokenEvent> {
    this.events ??= this.logProbs.map((logProb, k) => ({
      tokenId: this.tokens[this.promptLength + k]!,
      logProb,
      weightVersion: this.weightVersions[k]!,
      ...(this.topLogProbs[k] ? { topLogProbs: this.topLogProbs[k] } : {}),
    }));
    for (let next = 0; ; next++) {
      while (next >= this.events.length && !this.isFinished)
        await new Promise<void>((resolve) => {
          this.wake = resolve;
        });
      if (next < this.events.length) yield this.events[next]!;
      else if (this.failure) throw this.failure;
      else return;
    }
  }
}
