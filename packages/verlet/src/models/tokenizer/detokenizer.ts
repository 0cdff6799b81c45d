/** Token ids to text, one by one as they are sampled. Text that is not yet a whole character is kept back. */
export interface IncrementalDetokenizer {
  /** The text that has become certain with this token; often, but not always, the token's own. */
  push(tokenId: number): string;
  /** What was kept back, with U+FFFD for broken characters. */
  flush(): string;
  /** Everything returned so far. */
  readonly text: string;
}

/** For byte-level vocabularies: exact and in constant time per token. */
export class ByteDetokenizer implements IncrementalDetokenizer {
  private readonly decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  text = '';

  constructor(private readonly bytesOf: (tokenId: number) => Uint8Array) {}

  push(tokenId: number): string {
    return this.emit(this.decoder.decode(this.bytesOf(tokenId), { stream: true }));
  }

  flush(): string {
    return this.emit(this.decoder.decode());
  }

  private emit(piece: string): string {
    this.text += piece;
    return piece;
  }
}

/**
 * For any other decoder (SentencePiece with byte fallback): what a token adds depends on its neighbours, so the end of
 * the sequence is decoded twice, with and without the new token, and the difference is the new text.
 */
export class WindowDetokenizer implements IncrementalDetokenizer {
  private readonly ids: number[] = [];
  private windowStart = 0;
  private settled = 0;
  text = '';

  constructor(private readonly decode: (tokenIds: number[]) => string) {}

  push(tokenId: number): string {
    this.ids.push(tokenId);
    return this.advance(false);
  }

  flush(): string {
    return this.advance(true);
  }

  private advance(isEnd: boolean): string {
    const before = this.decode(this.ids.slice(this.windowStart, this.settled));
    const after = this.decode(this.ids.slice(this.windowStart));
    if (after.length <= before.length || (!isEnd && after.endsWith('\uFFFD'))) return '';
    const piece = after.slice(before.length);
    this.windowStart = this.settled;
    this.settled = this.ids.length;
    this.text += piece;
    return piece;
  }
}
