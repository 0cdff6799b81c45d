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

const HELP = `/reset            forget the conversation
/undo             forget the last question and its answer
/system TEXT      set the system message and forget the conversation; without a text there is none
/logprobs [N]     show each token's log-probability (and the N likeliest), or stop showing it
/set NAME VALUE   temperature, top_p, top_k, max_tokens or seed; /set alone shows them
/exit             leave`;

/** What /set takes: the key of the sampling settings, and which values. */
const SETTABLE: Record<string, { key: keyof SamplingParams; allows: (value: number) => boolean; range: string }> = {
  temperature: { key: 'temperature', allows: (value) => value >= 0, range: 'a number from 0' },
  top_p: { key: 'topP', allows: (value) => value > 0 && value <= 1, range: 'a number above 0 and up to 1' },
  top_k: { key: 'topK', allows: (value) => Number.isInteger(value), range: 'a whole number, -1 for all' },
  max_tokens: { key: 'maxTokens', allows: (value) => Number.isInteger(value) && value > 0, range: 'a whole number' },
  seed: { key: 'seed', allows: (value) => Number.isInteger(value), range: 'a whole number' },
};

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
    if (name === 'exit' || name === 'quit') return false;
    this.parts.note(this.command(name, rest));
    return true;
  }

  /** Does what a line with a slash says and returns what to tell the person. */
  private command(name: string, rest: string): string {
    const { settings } = this.parts;
    switch (name) {
      case 'reset':
        this.messages = [];
        return '(a new conversation)';
      case 'undo':
        if (this.messages.length === 0) return '(nothing was said yet)';
        this.messages = this.messages.slice(0, -2);
        return this.messages.length === 0 ? '(a new conversation)' : '(the last question and its answer are forgotten)';
      case 'system':
        settings.system = rest || undefined;
        this.messages = [];
        return rest ? '(a new conversation with this system message)' : '(a new conversation without a system message)';
      case 'logprobs':
        return this.setLogProbs(rest);
      case 'set':
        return this.set(rest);
      default:
        return name === 'help' ? HELP : `there is no /${name}\n${HELP}`;
    }
  }

  private setLogProbs(rest: string): string {
    const { settings } = this.parts;
    const wanted = rest === '' ? (settings.logProbs === null ? 0 : null) : Number(rest);
    if (wanted !== null && !(Number.isInteger(wanted) && wanted >= 0 && wanted <= 20))
      return '/logprobs takes a whole number up to 20';
    settings.logProbs = wanted;
    return wanted === null ? '(log-probabilities are off)' : `(log-probabilities, with the ${wanted} likeliest tokens)`;
  }

  private set(rest: string): string {
    const { sampling } = this.parts.settings;
    const [name = '', value = ''] = rest.split(/[\s=]+/);
    if (name === '')
      return Object.entries(SETTABLE)
        .map(([known, { key }]) => `${known} ${String(sampling[key])}`)
        .join(', ');
    const setting = SETTABLE[name];
    if (!setting) return `/set takes ${Object.keys(SETTABLE).join(', ')}`;
    if (value === '' || !setting.allows(Number(value))) return `/set ${name} takes ${setting.range}`;
    Object.assign(sampling, { [setting.key]: Number(value) });
    return `(${name} ${value})`;
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
