/** Log-probabilities in the three shapes that OpenAI gave them. */
import type { TokenEvent } from '../types.js';
import type { ServerTokenizer } from './types.js';

export interface LogProbStyle {
  tokenizer: ServerTokenizer;
  /** How many alternatives per position. */
  top: number;
  /** Write tokens as `token_id:{id}`. */
  asTokenIds: boolean;
}

/** `choices[].logprobs.content[]` of chat, and `output_text.logprobs[]` of responses. */
export function chatLogProbs(tokens: TokenEvent[], style: LogProbStyle) {
  return tokens.map((token) => ({
    ...chatEntry(token.tokenId, token.logProb, style),
    top_logprobs: (token.topLogProbs ?? [])
      .slice(0, style.top)
      .map((entry) => chatEntry(entry.tokenId, entry.logProb, style)),
  }));
}

function chatEntry(tokenId: number, logProb: number, style: LogProbStyle) {
  const text = style.tokenizer.decode([tokenId], { skipSpecialTokens: false });
  return {
    token: style.asTokenIds ? `token_id:${tokenId}` : text,
    logprob: finite(logProb),
    bytes: [...Buffer.from(text)],
  };
}

/** `choices[].logprobs` of completions: parallel lists. */
export function completionLogProbs(tokens: TokenEvent[], style: LogProbStyle, textOffsets: number[]) {
  const show = (id: number) =>
    style.asTokenIds ? `token_id:${id}` : style.tokenizer.decode([id], { skipSpecialTokens: false });
  return {
    tokens: tokens.map((token) => show(token.tokenId)),
    token_logprobs: tokens.map((token) => finite(token.logProb)),
    top_logprobs:
      style.top === 0
        ? null
        : tokens.map((token) =>
            Object.fromEntries(
              (token.topLogProbs ?? [])
                .slice(0, style.top)
                .map((entry) => [show(entry.tokenId), finite(entry.logProb)]),
            ),
          ),
    text_offset: textOffsets,
  };
}

/** JSON has no -Infinity; vLLM sends this number too. */
const finite = (logProb: number) => Math.max(logProb, -9999);
