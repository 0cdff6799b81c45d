/**
 * The head forward and back in one walk over the chunks, for losses whose gradient follows from the log-probs of a chunk alone
 * (cross-entropy, token-wise policy losses with known totals). Logits become their gradient at once: none are kept and none
 * computed twice.
 */
import { cat } from '../create.js';
import { scope } from '../scope.js';
import type { Tensor } from '../tensor.js';
import { defaultChunk, LogProbHead, type LogProbHeadOptions } from './head.js';
import type { Parameter } from './parameter.js';

/** Tokens `start` to `start + length` of the batch. */
export interface HeadChunk {
  start: number;
  length: number;
  /** [length] float32 */
  logProbs: Tensor;
  /** [length] float32, when asked for. */
  entropy: Tensor | null;
}

export interface HeadStepResult {
  /** [tokens] float32 */
  logProbs: Tensor;
  /** The gradient of the hidden states, [tokens, features]. */
  gradHidden: Tensor;
}

/**
 * @param hidden [tokens, features]
 * @param weight [vocabulary, features]; its gradient is added when it is trained
 * @param targets [tokens] int64
 * @param gradientOf the loss's gradient with respect to a chunk's log-probs, and its entropies where they count
 */
export function headStep(
  hidden: Tensor,
  weight: Parameter,
  targets: Tensor,
  gradientOf: (chunk: HeadChunk) => { logProbs: Tensor; entropy?: Tensor | null },
  options: Pick<LogProbHeadOptions, 'temperature' | 'chunkTokens' | 'entropy'> = {},
): HeadStepResult {
  const tokens = hidden.size(0);
  const chunk = options.chunkTokens ?? defaultChunk(weight);
  return scope(() => {
    const parts: HeadStepResult[] = [];
    for (let start = 0; start === 0 || start < tokens; start += chunk) {
      const length = Math.min(chunk, tokens - start);
      parts.push(
        scope(() => {
          const head = new LogProbHead(hidden.narrow(0, start, length), weight, targets.narrow(0, start, length), {
            ...options,
            chunkTokens: chunk,
            keepBytes: Number.POSITIVE_INFINITY,
            train: true,
          });
          const { logProbs, entropy } = head.result;
          const gradient = gradientOf({ start, length, logProbs, entropy });
          const gradHidden = head.backward(gradient.logProbs, gradient.entropy ?? null, weight);
          entropy?.dispose();
          return { logProbs, gradHidden };
        }),
      );
    }
    const result = {
      logProbs: cat(parts.map(({ logProbs }) => logProbs)),
      gradHidden: cat(parts.map(({ gradHidden }) => gradHidden)),
    };
    for (const { logProbs } of parts) logProbs.dispose();
    return result;
  });
}
