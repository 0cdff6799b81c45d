/** Token ids in, text out that may be shown at once: never a piece of a stop string, nor of a token that stops. */
import type { ServerTokenizer } from './types.js';

export interface TextStreamOptions {
  detokenizer: ReturnType<ServerTokenizer['detokenizer']>;
  stop: readonly string[];
  /** Tokens that may end the generation; their text is not shown when they do. */
  isStopToken: (id: number) => boolean;
}

export class TextStream {
  /** All text so far, up to a stop string. */
  text = '';
  private withheld: number[] = [];
  private shown = 0;
  private stopped = false;

  constructor(private readonly options: TextStreamOptions) {}

  push(tokenId: number): string {
    if (this.options.isStopToken(tokenId)) {
      this.withheld.push(tokenId);
      return '';
    }
    for (const id of this.withheld) this.append(this.options.detokenizer.push(id));
    this.withheld = [];
    this.append(this.options.detokenizer.push(tokenId));
    return this.show(this.text.length - heldBack(this.text, this.options.stop));
  }

  /** The rest. A stop token that was not the one to stop the generation is text after all. */
  end(endedByToken: boolean): string {
    if (endedByToken) this.withheld.pop();
    for (const id of this.withheld) this.append(this.options.detokenizer.push(id));
    this.append(this.options.detokenizer.flush());
    return this.show(this.text.length);
  }

  private append(delta: string): void {
    if (this.stopped || delta === '') return;
    const longest = Math.max(0, ...this.options.stop.map((stop) => stop.length));
    const searchFrom = Math.max(0, this.text.length - longest);
    this.text += delta;
    const found = this.options.stop.map((stop) => this.text.indexOf(stop, searchFrom)).filter((at) => at >= 0);
    if (found.length > 0) {
      this.text = this.text.slice(0, Math.min(...found));
      this.stopped = true;
    }
  }

  private show(until: number): string {
    const delta = this.text.slice(this.shown, this.stopped ? this.text.length : until);
    this.shown += delta.length;
    return delta;
  }
}

/** Length of the longest end of `text` with which one of `needles` begins. */
export function heldBack(text: string, needles: readonly string[]): number {
  let longest = 0;
  for (const needle of needles) {
    for (let length = Math.min(needle.length - 1, text.length); length > longest; length--) {
      if (text.endsWith(needle.slice(0, length))) longest = length;
    }
  }
  return longest;
}
