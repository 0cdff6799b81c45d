/** A conversation with a model, line by line: what `verlet chat` does between its input and its output. */
import type { ChatMessage, Tokenizer } from '../models/tokenizer/index.js';
import type { Engine, SamplingParams, TokenEvent } from '../rollout/types.js';

export interface ChatSettings {
  sampling: SamplingParams;
  system?: string;
  /** Likeliest tokens shown per token; null shows no log-probabilities. */
  logProbs: number | null;
  /** Continue plain text instead of filling a chat template. */
  isRaw: boolean;
  templateKwargs?: Record<string, unknown>;
}

export interface ChatParts {
  engine: Engine;
  tokenizer: Tokenizer;
  settings: ChatSettings;
  /** Text as it is sampled, without a newline added. */
  write: (text: string) => void;
  /** Remarks that are not part of the conversation. */
  note: (text: string) => void;
}

const HELP = `/reset          forget the conversation
/system TEXT    set the system message and forget the conversation
/logprobs [N]   show each token's log-probability (and the N likeliest), or stop showing it
/exit           leave`;

export class ChatSession {
  private messages: ChatMessage[] = [];
  private running: string | null = null;
  private turn = 0;

  constructor(private readonly parts: ChatParts) {}

  /** Handles one line; false when the person wants to leave. */
  async handle(line: string): Promise<boolean> {
    const text = line.trim();
    if (text === '') return true;
    if (!text.startsWith('/')) {
      await this.answer(line);
      return true;
    }
    const [, name = '', rest = ''] = /^\/(\S*)\s*(.*)$/s.exec(text)!;
    const { settings, note } = this.parts;
    if (name === 'exit' || name === 'quit') return false;
    if (name === 'reset') this.messages = [];
    else if (name === 'system') {
      settings.system = rest || undefined;
      this.messages = [];
    } else if (name === 'logprobs') {
      const wanted = rest === '' ? (settings.logProbs === null ? 0 : null) : Number(rest);
      if (wanted !== null && !(Number.isInteger(wanted) && wanted >= 0 && wanted <= 20))
        note('/logprobs takes a whole number up to 20');
      else settings.logProbs = wanted;
    } else note(name === 'help' ? HELP : `there is no /${name}\n${HELP}`);
    return true;
  }

  /** Ends the answer that is being sampled; what was said stays in the conversation. Returns whether there was one. */
  interrupt(): boolean {
    if (this.running === null) return false;
    this.parts.engine.abort(this.running);
    return true;
  }

  private promptIds(content: string): Int32Array {
    const { tokenizer, settings } = this.parts;
    if (settings.isRaw) return tokenizer.encode(content, { addSpecialTokens: true });
    const system = settings.system === undefined ? [] : [{ role: 'system', content: settings.system }];
    return tokenizer.encodeChat([...system, ...this.messages, { role: 'user', content }], {
      addGenerationPrompt: true,
      kwargs: settings.templateKwargs,
    });
  }

  private async answer(content: string): Promise<void> {
    const { engine, tokenizer, settings, write, note } = this.parts;
    const promptIds = this.promptIds(content);
    if (promptIds.length >= engine.maxModelLength) {
      note(
        `the conversation has ${promptIds.length} tokens, the model takes ${engine.maxModelLength}; /reset begins a new one`,
      );
      return;
    }
    const generation = engine.submit({
      promptIds,
      sampling: { ...settings.sampling, topLogProbs: settings.logProbs ?? 0 },
      sampleIndex: this.turn++,
    });
    this.running = generation.id;
    const detokenizer = tokenizer.detokenizer({ skipSpecialTokens: true });
    const events: TokenEvent[] = [];
    let said = '';
    const say = (text: string): void => {
      said += text;
      if (text !== '') write(text);
    };
    try {
      for await (const event of generation) {
        events.push(event);
        say(detokenizer.push(event.tokenId));
      }
      say(detokenizer.flush());
      write('\n');
      const { finishReason } = await generation.output;
      if (finishReason === 'length') note(`(stopped after ${events.length} tokens)`);
      if (finishReason === 'abort') note('(interrupted)');
    } finally {
      this.running = null;
    }
    if (!settings.isRaw) this.messages.push({ role: 'user', content }, { role: 'assistant', content: said });
    if (settings.logProbs !== null) write(`${describeTokens(events, tokenizer)}\n`);
  }
}

/** One line per token: its text, log-probability, probability, and what else was likely. */
export function describeTokens(events: readonly TokenEvent[], tokenizer: Tokenizer): string {
  const shown = (id: number): string => JSON.stringify(tokenizer.decode([id]));
  const percent = (logProb: number): string => `${(100 * Math.exp(logProb)).toFixed(1)}%`;
  const width = Math.max(0, ...events.map(({ tokenId }) => shown(tokenId).length));
  const total = events.reduce((sum, { logProb }) => sum + logProb, 0);
  const lines = events.map(({ tokenId, logProb, topLogProbs = [] }) => {
    const others = topLogProbs.map((one) => `${shown(one.tokenId)} ${percent(one.logProb)}`).join('  ');
    const own = `  ${shown(tokenId).padEnd(width)}  ${logProb.toFixed(4).padStart(9)}  ${percent(logProb).padStart(6)}`;
    return others ? `${own}  | ${others}` : own;
  });
  return [...lines, `  sum ${total.toFixed(4)}, mean ${(total / Math.max(1, events.length)).toFixed(4)}`].join('\n');
}
