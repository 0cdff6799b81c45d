import type { ChoiceEnd } from './generate.js';

/** Counts tokens over the choices of one request. */
export class UsageCounter {
  completionTokens = 0;
  cachedTokens = 0;

  constructor(readonly promptTokens: number) {}

  add(end: Pick<ChoiceEnd, 'numTokens' | 'numCachedTokens'>): void {
    this.completionTokens += end.numTokens;
    this.cachedTokens = Math.max(this.cachedTokens, end.numCachedTokens);
  }

  /** As chat and completions report it. */
  get chat() {
    return {
      prompt_tokens: this.promptTokens,
      completion_tokens: this.completionTokens,
      total_tokens: this.promptTokens + this.completionTokens,
      prompt_tokens_details: { cached_tokens: Math.min(this.cachedTokens, this.promptTokens) },
    };
  }

  /** As responses report it. */
  get responses() {
    return {
      input_tokens: this.promptTokens,
      input_tokens_details: { cached_tokens: Math.min(this.cachedTokens, this.promptTokens) },
      output_tokens: this.completionTokens,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: this.promptTokens + this.completionTokens,
    };
  }
}
