import { randomUUID } from 'node:crypto';
import type { ChatMessage, ChatTokenizer, ToolSchema } from './types.js';

/** How the sampled tokens before a continuation ended. */
export interface TurnEnd {
  /** An end token was sampled and is part of the turn; false after a stop string, a cut or an abort. */
  closed: boolean;
}

/**
 * What conversations of one batch can share, since they share the template: the samples of a prompt have equal prompt
 * ids, and what a template puts between turns does not depend on what was said long before.
 */
export class TemplateCache {
  readonly promptIds = new Map<string, number[]>();
  readonly closesTurns = new Map<string, boolean>();
  /** By the roles that come next: whether a short stand-in for the conversation gives the same continuation. */
  readonly standInWorks = new Map<string, boolean>();
}

/** Enough of a conversation for a template to write the next turn. */
const STAND_IN: ChatMessage[] = [{ role: 'user', content: '?' }];

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
  private readonly settings: string;

  constructor(
    private readonly tokenizer: ChatTokenizer,
    private readonly prompt: readonly ChatMessage[],
    private readonly tools: readonly ToolSchema[] = [],
    private readonly kwargs: Record<string, unknown> = {},
    private readonly cache = new TemplateCache(),
  ) {
    this.settings = JSON.stringify([tools, kwargs]);
  }

  promptIds(): number[] {
    const key = `${this.settings}${JSON.stringify(this.prompt)}`;
    let ids = this.cache.promptIds.get(key);
    if (!ids) {
      ids = this.encode(this.render(this.prompt, this.tools, true));
      this.cache.promptIds.set(key, ids);
    }
    return ids.slice();
  }

  /** The token ids between a sampled turn and the next one. */
  continuationIds(messages: readonly ChatMessage[], end: TurnEnd): number[] {
    const ids = this.encode(this.continuation(messages));
    return end.closed && this.closesTurns() ? ids.slice(1) : ids;
  }

  /** Rendering a long prompt with its tools only to cut it off is most of the cost, so a stand-in is tried, and checked once. */
  private continuation(messages: readonly ChatMessage[]): string {
    const key = `${this.settings}${messages.map(({ role }) => role).join()}`;
    const standInWorks = this.cache.standInWorks.get(key);
    if (standInWorks) return this.afterMark(STAND_IN, messages, [], true);
    const whole = this.afterMark(this.prompt, messages, this.tools, true);
    if (standInWorks === undefined) this.cache.standInWorks.set(key, whole === this.tryStandIn(messages));
    return whole;
  }

  private tryStandIn(messages: readonly ChatMessage[]): string | undefined {
    try {
      return this.afterMark(STAND_IN, messages, [], true);
    } catch {
      return undefined;
    }
  }

  private afterMark(
    before: readonly ChatMessage[],
    after: readonly ChatMessage[],
    tools: readonly ToolSchema[],
    addGenerationPrompt: boolean,
  ): string {
    const text = this.render(
      [...before, { role: 'assistant', content: this.mark }, ...after],
      tools,
      addGenerationPrompt,
    );
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
  private closesTurns(): boolean {
    let closes = this.cache.closesTurns.get(this.settings);
    if (closes === undefined) {
      const first = this.encode(this.afterMark(this.prompt, [], this.tools, false))[0];
      closes = first !== undefined && this.tokenizer.decode([first], { skipSpecialTokens: true }) === '';
      this.cache.closesTurns.set(this.settings, closes);
    }
    return closes;
  }

  private render(messages: readonly ChatMessage[], tools: readonly ToolSchema[], addGenerationPrompt: boolean): string {
    return this.tokenizer.applyChatTemplate(messages, {
      tools: tools.length > 0 ? [...tools] : null,
      addGenerationPrompt,
      kwargs: this.kwargs,
    });
  }

  private encode(text: string): number[] {
    return Array.from(this.tokenizer.encode(text, { addSpecialTokens: false }));
  }
}
