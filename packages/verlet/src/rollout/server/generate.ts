/** Runs the n samples of a prompt on the engine and merges their tokens, with text, into one stream of deltas. */
import type { CompleteSamplingParams } from '../sampling-params.js';
import type { Engine, Generation, TokenEvent } from '../types.js';
import { ApiError } from './errors.js';
import { TextStream } from './text-stream.js';
import type { ServerTokenizer } from './types.js';

export interface ChoiceEnd {
  finishReason: 'stop' | 'length';
  stopReason: number | string | null;
  numTokens: number;
  numCachedTokens: number;
}

/** What one choice gained: perhaps no text yet (half a character), perhaps no token (the rest at the end). */
export interface ChoiceDelta {
  index: number;
  text: string;
  tokens: TokenEvent[];
  /** Where in the choice's text each of `tokens` begins. */
  textOffsets: number[];
  end?: ChoiceEnd;
}

export interface GenerateRequest {
  promptIds: number[];
  sampling: CompleteSamplingParams;
  n: number;
  signal: AbortSignal;
  /** The index of the first choice, when one request has several prompts. */
  firstIndex?: number;
  keepSpecialTokens?: boolean;
  /** Milliseconds to let tokens gather before the next deltas; asked anew each time. Infinity: until all is sampled. */
  pause?: () => number;
}

/** Submits at once; the samples run whether or not the stream is read, and are aborted when reading stops early. */
export function generate(
  engine: Engine,
  tokenizer: ServerTokenizer,
  request: GenerateRequest,
): AsyncGenerator<ChoiceDelta> {
  const { promptIds, sampling, n, signal, firstIndex = 0, keepSpecialTokens = false, pause = () => 0 } = request;
  const controller = new AbortController();
  const stopTokenIds = new Set(sampling.stopTokenIds);
  // With special tokens kept, an end token would show up as text; it is whatever vanishes when they are skipped.
  const isStopToken = (id: number) =>
    stopTokenIds.has(id) || (keepSpecialTokens && tokenizer.decode([id], { skipSpecialTokens: true }) === '');
  const streams = Array.from({ length: n }, (_, sampleIndex) => {
    const ownSignal = AbortSignal.any([signal, controller.signal]); // One each: Node warns of many listeners on one.
    const generation = engine.submit({ promptIds, sampling, sampleIndex, signal: ownSignal });
    generation.output.catch(() => {}); // Awaited below; a failure of another choice must not make it "unhandled".
    const text = new TextStream({
      detokenizer: tokenizer.detokenizer({ skipSpecialTokens: !keepSpecialTokens }),
      stop: sampling.stop,
      isStopToken,
    });
    return readChoice(generation, firstIndex + sampleIndex, text, signal);
  });
  return abortOnReturn(gather(streams, pause), controller);
}

async function* readChoice(
  generation: Generation,
  index: number,
  text: TextStream,
  signal: AbortSignal,
): AsyncGenerator<ChoiceDelta> {
  for await (const token of generation) {
    const textOffsets = [text.text.length];
    yield { index, text: text.push(token.tokenId), tokens: [token], textOffsets };
  }
  const output = await generation.output;
  if (output.finishReason === 'abort') throw abortError(signal);
  const end = {
    finishReason: output.finishReason,
    stopReason: output.stopReason,
    numTokens: output.tokenIds.length,
    numCachedTokens: output.numCachedTokens,
  };
  const rest = text.end(output.finishReason === 'stop' && typeof output.stopReason === 'number');
  yield { index, text: rest, tokens: [], textOffsets: [], end };
}

export function abortError(signal: AbortSignal): ApiError {
  if (signal.reason instanceof ApiError) return signal.reason;
  return new ApiError(503, 'The generation was aborted by the engine. Try again.', null, 'aborted');
}

async function* abortOnReturn<T>(source: AsyncGenerator<T>, controller: AbortController): AsyncGenerator<T> {
  try {
    yield* source;
  } finally {
    controller.abort();
  }
}

/**
 * Deltas of all choices. Whatever a choice gained since the last time comes as one delta, so that a slow reader, or one of
 * many, gets fewer and larger pieces instead of falling behind the engine.
 */
async function* gather(choices: AsyncIterable<ChoiceDelta>[], pause: () => number): AsyncGenerator<ChoiceDelta> {
  const gained = new Map<number, ChoiceDelta>();
  const news = new Signal();
  const over = new Signal();
  let live = choices.length;
  let failure: { error: unknown } | undefined;
  for (const choice of choices) {
    pump(choice, (delta) => {
      const before = gained.get(delta.index);
      gained.set(delta.index, before ? join(before, delta) : delta);
      news.raise();
    })
      .catch((error) => {
        failure ??= { error };
      })
      .finally(() => {
        live--;
        if (live === 0 || failure) over.raise();
        news.raise();
      });
  }
  for (;;) {
    const deltas = [...gained.values()];
    gained.clear();
    yield* deltas;
    if (failure) throw failure.error;
    if (live === 0 && gained.size === 0) return;
    if (gained.size === 0) await news.wait();
    if (live > 0 && !failure) await over.wait(pause());
  }
}

async function pump<T>(source: AsyncIterable<T>, take: (item: T) => void): Promise<void> {
  for await (const item of source) take(item);
}

/** Gathers into the earlier one: copying per token would be quadratic in a long answer. */
function join(earlier: ChoiceDelta, later: ChoiceDelta): ChoiceDelta {
  earlier.text += later.text;
  earlier.tokens.push(...later.tokens);
  earlier.textOffsets.push(...later.textOffsets);
  earlier.end = later.end;
  return earlier;
}

/** Shorter pauses than this are not worth a timer. */
const SHORTEST_PAUSE_MS = 2;

/** Something one waiter waits for; raised before it waits, it does not wait. */
class Signal {
  private isRaised = false;
  private wake = () => {};

  raise(): void {
    this.isRaised = true;
    this.wake();
  }

  async wait(milliseconds = Number.POSITIVE_INFINITY): Promise<void> {
    if (!this.isRaised && milliseconds >= SHORTEST_PAUSE_MS) {
      await new Promise<void>((resolve) => {
        const timer = Number.isFinite(milliseconds) ? setTimeout(resolve, milliseconds) : undefined;
        this.wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
    this.isRaised = false;
  }
}

/** Items of all sources in the order they come; the first failure ends it. */
export async function* merge<T>(sources: AsyncIterable<T>[]): AsyncGenerator<T> {
  const arrived: T[] = [];
  const news = new Signal();
  let live = sources.length;
  let failure: { error: unknown } | undefined;
  for (const source of sources) {
    pump(source, (item) => {
      arrived.push(item);
      news.raise();
    })
      .catch((error) => {
        failure ??= { error };
      })
      .finally(() => {
        live--;
        news.raise();
      });
  }
  for (;;) {
    while (arrived.length > 0) yield arrived.shift()!;
    if (failure) throw failure.error;
    if (live === 0) return;
    await news.wait();
  }
}
