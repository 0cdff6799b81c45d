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
}

/** Submits at once; the samples run whether or not the stream is read, and are aborted when reading stops early. */
export function generate(
  engine: Engine,
  tokenizer: ServerTokenizer,
  request: GenerateRequest,
): AsyncGenerator<ChoiceDelta> {
  const { promptIds, sampling, n, signal, firstIndex = 0, keepSpecialTokens = false } = request;
  const controller = new AbortController();
  const anySignal = AbortSignal.any([signal, controller.signal]);
  const stopTokenIds = new Set(sampling.stopTokenIds);
  // With special tokens kept, an end token would show up as text; it is whatever vanishes when they are skipped.
  const isStopToken = (id: number) =>
    stopTokenIds.has(id) || (keepSpecialTokens && tokenizer.decode([id], { skipSpecialTokens: true }) === '');
  const streams = Array.from({ length: n }, (_, sampleIndex) => {
    const generation = engine.submit({ promptIds, sampling, sampleIndex, signal: anySignal });
    generation.output.catch(() => {}); // Awaited below; a failure of another choice must not make it "unhandled".
    const text = new TextStream({
      detokenizer: tokenizer.detokenizer({ skipSpecialTokens: !keepSpecialTokens }),
      stop: sampling.stop,
      isStopToken,
    });
    return readChoice(generation, firstIndex + sampleIndex, text, signal);
  });
  return abortOnReturn(merge(streams), controller);
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

/** Items of all sources in the order they come; the first failure ends it. */
export async function* merge<T>(sources: AsyncIterable<T>[]): AsyncGenerator<T> {
  const arrived: T[] = [];
  let live = sources.length;
  let failure: { error: unknown } | undefined;
  let wakeReader = () => {};
  for (const source of sources) {
    void (async () => {
      try {
        for await (const item of source) {
          arrived.push(item);
          wakeReader();
        }
      } catch (error) {
        failure ??= { error };
      } finally {
        live--;
        wakeReader();
      }
    })();
  }
  for (;;) {
    while (arrived.length > 0) yield arrived.shift()!;
    if (failure) throw failure.error;
    if (live === 0) return;
    await new Promise<void>((resolve) => {
      wakeReader = resolve;
      if (arrived.length > 0 || failure || live === 0) resolve();
    });
  }
}
