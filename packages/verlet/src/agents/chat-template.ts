import { randomUUID } from 'node:crypto';
import type { ChatMessage, ChatTokenizer, ToolSchema } from './types.js';

/** How the sampled tokens before a continuation ended. */
export interface TurnEnd {
  /** An end token was sampled and is part of the turn; false after a stop string, a cut or an abort. */
  closed: boolean;
}

/**
 * The chat template, one turn at a time.
 *
 * The first prompt is the template's own rendering. What follows a sampled turn (its closing, the new messages, the next
 * generation prompt) is read off a rendering in which a unique mark stands for the sampled text: everything after the mark
 * is what the template would have put there. The sampled tokens themselves are never rendered or tokenised again, so a
 * template that rewrites history (Qwen3 drops the thinking of earlier turns once a new user message comes) does not
 * rewrite what the model saw.
 */
export class IncrementalChatTemplate {
  private readonly mark = `turn${randomUUID().replaceAll('-', '')}`;
  private closingIsOneToken: boolean | undefined;

  constructor(
    private readonly tokenizer: ChatTokenizer,
    private readonly prompt: readonly ChatMessage[],
    private readonly tools: readonly ToolSchema[] = [],
    private readonly kwargs: Record<string, unknown> = {},
  ) {}

  promptIds(): number[] {
    return this.encode(this.render(this.prompt, true));
  }

  /** The token ids between a sampled turn and the next one. */
  continuationIds(messages: readonly ChatMessage[], end: TurnEnd, addGenerationPrompt = true): number[] {
    const ids = this.encode(this.afterMark([...this.context(), ...messages], addGenerationPrompt));
    return end.closed && this.startsWithClosing() ? ids.slice(1) : ids;
  }

  private context(): ChatMessage[] {
    return [...this.prompt, { role: 'assistant', content: this.mark }];
  }

  private afterMark(messages: readonly ChatMessage[], addGenerationPrompt: boolean): string {
    const text = this.render(messages, addGenerationPrompt);
    const start = text.indexOf(this.mark);
    if (start < 0) {
      throw new Error(
        'the chat template leaves the content of an assistant message out of its text, so turns cannot be continued; ' +
          'give the model a template that prints every assistant message',
      );
    }
    return text.slice(start + this.mark.length);
  }

  /**
   * Templates that close a turn do it with one special token (`<|im_end|>`, `<|eot_id|>`, `</s>`). When the model has
   * sampled an end token, whichever it was, that token stands in the closing's place.
   */
  private startsWithClosing(): boolean {
    if (this.closingIsOneToken === undefined) {
      const first = this.encode(this.afterMark(this.context(), false))[0];
      this.closingIsOneToken =
        first !== undefined && this.tokenizer.decode([first], { skipSpecialTokens: true }) === '';
    }
    return this.closingIsOneToken;
  }

  private render(messages: readonly ChatMessage[], addGenerationPrompt: boolean): string {
    return this.tokenizer.applyChatTemplate(messages, {
      tools: this.tools.length > 0 ? [...this.tools] : null,
      addGenerationPrompt,
      kwargs: this.kwargs,
    });
  }

  private encode(text: string): number[] {
    return Array.from(this.tokenizer.encode(text, { addSpecialTokens: false }));
  }
}
