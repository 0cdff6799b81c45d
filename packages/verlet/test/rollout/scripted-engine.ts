/** An engine that says what a script tells it to, token by token, and otherwise keeps the engine contract. */
import { randomUUID } from 'node:crypto';
import { validateSampling } from '../../src/rollout/sampling-params.js';
import type { ServerTokenizer } from '../../src/rollout/server/index.js';
import type { Engine, Generation, GenerationOutput, GenerationRequest, TokenEvent } from '../../src/rollout/types.js';
import { byteTokenizer, END } from './byte-tokenizer.js';

export type Script = (prompt: string, sampleIndex: number, promptIds: number[]) => string | number[];

/** Deterministic per token, so that tests can tell what they should get back. */
export const scriptedLogProb = (tokenId: number) => -((tokenId % 7) + 1) / 8;

export class ScriptedEngine implements Engine {
  weightVersion = 0;
  isAsleep = false;
  readonly requests: GenerationRequest[] = [];
  readonly outputs: GenerationOutput[] = [];
  /** After this many tokens a generation waits until it is aborted. */
  hangAfter = Number.POSITIVE_INFINITY;
  /** Thrown instead of the token at this position, once. */
  failAt: number | undefined;

  constructor(
    public script: Script,
    readonly maxModelLength = 4096,
    private readonly tokenizer: Pick<ServerTokenizer, 'encode' | 'decode'> = byteTokenizer,
    private readonly end = END,
  ) {}

  submit(request: GenerationRequest): Generation {
    this.requests.push(request);
    const events: TokenEvent[] = [];
    let wake = () => {};
    let isOver = false;
    const output = this.run(request, (event) => {
      events.push(event);
      wake();
    });
    const over = () => {
      isOver = true;
      wake();
    };
    output.then(over, over);
    return {
      id: request.id ?? randomUUID(),
      output,
      async *[Symbol.asyncIterator]() {
        for (let at = 0; ; at++) {
          while (at >= events.length && !isOver) await new Promise<void>((resolve) => (wake = resolve));
          if (at >= events.length) break;
          yield events[at]!;
        }
        await output;
      },
    };
  }

  private async run(request: GenerationRequest, emit: (event: TokenEvent) => void): Promise<GenerationOutput> {
    const sampling = validateSampling(request.sampling);
    const prompt = this.tokenizer.decode(request.promptIds);
    const said = this.script(prompt, request.sampleIndex ?? 0, Array.from(request.promptIds));
    const planned = [...(typeof said === 'string' ? Array.from(this.tokenizer.encode(said)) : said), this.end];
    const output: GenerationOutput = {
      id: request.id ?? randomUUID(),
      tokenIds: [],
      logProbs: [],
      topLogProbs: [],
      finishReason: 'length',
      stopReason: null,
      weightVersions: [],
      numCachedTokens: 0,
    };
    this.outputs.push(output);
    const room = Math.min(sampling.maxTokens, this.maxModelLength - request.promptIds.length);
    for (const tokenId of planned) {
      if (output.tokenIds.length >= room) return output;
      if (output.tokenIds.length === this.hangAfter) await aborted(request.signal);
      await new Promise((resolve) => setImmediate(resolve));
      if (request.signal?.aborted) return Object.assign(output, { finishReason: 'abort' });
      if (output.tokenIds.length === this.failAt) {
        this.failAt = undefined;
        throw new Error('the device fell off the bus');
      }
      const logProb = scriptedLogProb(tokenId);
      const alternatives = Array.from({ length: sampling.topLogProbs }, (_, rank) => ({
        tokenId: rank === 0 ? tokenId : 65 + rank,
        logProb: logProb - rank,
      }));
      output.tokenIds.push(tokenId);
      output.logProbs.push(logProb);
      output.topLogProbs!.push(alternatives);
      output.weightVersions.push(this.weightVersion);
      emit({ tokenId, logProb, topLogProbs: alternatives, weightVersion: this.weightVersion });
      const text = this.tokenizer.decode(output.tokenIds);
      const stopString = sampling.stop.find((stop) => text.includes(stop));
      if (stopString) return Object.assign(output, { finishReason: 'stop', stopReason: stopString });
      if (sampling.stopTokenIds.includes(tokenId) || (tokenId === this.end && !sampling.ignoreEos)) {
        return Object.assign(output, { finishReason: 'stop', stopReason: tokenId });
      }
    }
    return output;
  }

  abort(): void {}

  async updateWeights(): Promise<void> {
    this.weightVersion++;
  }

  async sleep(): Promise<void> {
    this.isAsleep = true;
  }

  async wake(): Promise<void> {
    this.isAsleep = false;
  }

  async close(): Promise<void> {}
}

function aborted(signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) resolve();
    signal?.addEventListener('abort', () => resolve(), { once: true });
  });
}
