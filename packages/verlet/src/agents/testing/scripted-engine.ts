import type { Engine, Generation, GenerationOutput, GenerationRequest, TokenEvent } from '../../rollout/types.js';
import type { ChatTokenizer } from '../types.js';

/** What the policy says next, given the text it was prompted with. An end token is put behind it unless `open`. */
export type Script = (
  prompt: string,
  request: GenerationRequest,
) => string | { text: string; open?: boolean } | Promise<string>;

export interface ScriptedEngineOptions {
  tokenizer: ChatTokenizer;
  script: Script;
  endTokenId: number;
  maxModelLength?: number;
}

/**
 * An engine whose policy is a function of the prompt: for trying out loops, tools and rewards without a model.
 * Keeps the contract of real engines: lengths, stop strings, end tokens, aborts, one log-prob per token.
 */
export class ScriptedEngine implements Engine {
  readonly maxModelLength: number;
  readonly requests: GenerationRequest[] = [];
  weightVersion = 0;
  /** Most requests that ran at the same time. */
  peakConcurrency = 0;
  private readonly running = new Map<string, AbortController>();
  private count = 0;

  constructor(private readonly options: ScriptedEngineOptions) {
    this.maxModelLength = options.maxModelLength ?? 1 << 16;
  }

  submit(request: GenerationRequest): Generation {
    const id = request.id ?? `request-${this.count++}`;
    const controller = new AbortController();
    this.requests.push(request);
    this.running.set(id, controller);
    this.peakConcurrency = Math.max(this.peakConcurrency, this.running.size);
    const onAbort = () => controller.abort();
    request.signal?.addEventListener('abort', onAbort, { once: true });
    if (request.signal?.aborted) onAbort();
    const output = this.generate(id, request, controller.signal).finally(() => {
      this.running.delete(id);
      request.signal?.removeEventListener('abort', onAbort);
    });
    return { id, output, [Symbol.asyncIterator]: () => tokensOf(output) };
  }

  abort(id: string): void {
    this.running.get(id)?.abort();
  }

  async updateWeights(): Promise<void> {
    this.weightVersion++;
  }

  async sleep(): Promise<void> {}

  async wake(): Promise<void> {}

  async close(): Promise<void> {
    for (const controller of this.running.values()) controller.abort();
  }

  private async generate(id: string, request: GenerationRequest, signal: AbortSignal): Promise<GenerationOutput> {
    const { tokenizer, script, endTokenId } = this.options;
    const prompt = tokenizer.decode(request.promptIds);
    const aborted = new Promise<'aborted'>((resolve) => {
      if (signal.aborted) resolve('aborted');
      signal.addEventListener('abort', () => resolve('aborted'), { once: true });
    });
    // A real engine never answers in the same turn of the event loop.
    await new Promise((resolve) => setImmediate(resolve));
    const said = await Promise.race([Promise.resolve(script(prompt, request)), aborted]);
    if (said === 'aborted' || signal.aborted) return this.output(id, [], 'abort', null);
    const { text, open = false } = typeof said === 'string' ? { text: said } : said;
    const ids = Array.from(tokenizer.encode(text));
    if (!open) ids.push(endTokenId);
    return this.limit(id, ids, request);
  }

  /** Token by token, as sampling would: the first thing that stops it wins. */
  private limit(id: string, ids: number[], { sampling = {} }: GenerationRequest): GenerationOutput {
    const { tokenizer, endTokenId } = this.options;
    const { stop = [], stopTokenIds = [], ignoreEos = false } = sampling;
    const maxTokens = sampling.maxTokens ?? ids.length;
    for (let length = 1; length <= Math.min(ids.length, maxTokens); length++) {
      const sampled = ids.slice(0, length);
      const last = sampled.at(-1)!;
      if ((last === endTokenId && !ignoreEos) || stopTokenIds.includes(last))
        return this.output(id, sampled, 'stop', last);
      const text = stop.length > 0 ? tokenizer.decode(sampled) : '';
      const hit = stop.find((candidate) => text.includes(candidate));
      if (hit !== undefined) return this.output(id, sampled, 'stop', hit);
    }
    return this.output(id, ids.slice(0, maxTokens), 'length', null);
  }

  private output(
    id: string,
    tokenIds: number[],
    finishReason: GenerationOutput['finishReason'],
    stopReason: GenerationOutput['stopReason'],
  ): GenerationOutput {
    return {
      id,
      tokenIds,
      logProbs: tokenIds.map((_, index) => -(index + 1) / 100),
      finishReason,
      stopReason,
      weightVersions: tokenIds.map(() => this.weightVersion),
      numCachedTokens: 0,
    };
  }
}

async function* tokensOf(output: Promise<GenerationOutput>): AsyncGenerator<TokenEvent> {
  const { tokenIds, logProbs, weightVersions } = await output;
  for (const [index, tokenId] of tokenIds.entries()) {
    yield { tokenId, logProb: logProbs[index]!, weightVersion: weightVersions[index]! };
  }
}
