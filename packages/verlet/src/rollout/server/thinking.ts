/** Parts `<think>...</think>` at the start of a turn from the answer, while it is being streamed. */
import type { ChoiceDelta } from './generate.js';
import { heldBack } from './text-stream.js';

const OPEN = '<think>';
const CLOSE = '</think>';

export interface Spoken {
  reasoning: string;
  text: string;
}

export class ThinkingSplitter {
  private pending = '';
  private state: 'undecided' | 'thinking' | 'between' | 'speaking';

  /** `isOpen`: the chat template has written the opening tag already. */
  constructor(isOpen: boolean) {
    this.state = isOpen ? 'thinking' : 'undecided';
  }

  push(text: string): Spoken {
    this.pending += text;
    if (this.state === 'undecided') this.decide();
    const reasoning = this.state === 'thinking' ? this.think() : '';
    if (this.state === 'between') this.skipNewlines();
    return { reasoning, text: this.state === 'speaking' ? this.takeAll() : '' };
  }

  /** What was held back. A turn that was cut off in its thoughts has no answer. */
  end(): Spoken {
    const rest = this.takeAll();
    if (this.state === 'thinking') return { reasoning: rest.trimEnd(), text: '' };
    return { reasoning: '', text: this.state === 'between' ? '' : rest };
  }

  private decide(): void {
    const start = this.pending.trimStart();
    if (start.startsWith(OPEN)) {
      this.pending = start.slice(OPEN.length);
      this.state = 'thinking';
    } else if (!OPEN.startsWith(start)) this.state = 'speaking';
  }

  private think(): string {
    const close = this.pending.indexOf(CLOSE);
    const certain = close >= 0 ? close : this.pending.length - heldBack(this.pending, [CLOSE]);
    const thought = this.pending.slice(0, certain).trimEnd();
    this.pending = close >= 0 ? this.pending.slice(close + CLOSE.length) : this.pending.slice(thought.length);
    if (close >= 0) this.state = 'between';
    return thought;
  }

  private skipNewlines(): void {
    this.pending = this.pending.replace(/^\n+/, '');
    if (this.pending !== '') this.state = 'speaking';
  }

  private takeAll(): string {
    const all = this.pending;
    this.pending = '';
    return all;
  }
}

/** Moves the thinking of every choice from `text` to `reasoning`. */
export async function* separateThinking(
  deltas: AsyncGenerator<ChoiceDelta>,
  isOpen: boolean,
): AsyncGenerator<ChoiceDelta & { reasoning?: string }> {
  const splitters = new Map<number, ThinkingSplitter>();
  for await (const delta of deltas) {
    const splitter = splitters.get(delta.index) ?? new ThinkingSplitter(isOpen);
    splitters.set(delta.index, splitter);
    const now = splitter.push(delta.text);
    const rest = delta.end ? splitter.end() : { reasoning: '', text: '' };
    yield { ...delta, reasoning: now.reasoning + rest.reasoning, text: now.text + rest.text };
  }
}

/** Whether a prompt ends inside an opened thought, as templates of models that always think write it. */
export function opensThought(promptText: string): boolean {
  return promptText.trimEnd().endsWith(OPEN);
}
