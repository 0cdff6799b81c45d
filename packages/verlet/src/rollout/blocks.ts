/**
 * Which block of the key-value cache holds what: pure bookkeeping, no tensors. A block belongs to every sequence that holds
 * it; a full block is remembered by the tokens that lead up to its end, so that a later prompt with the same beginning finds
 * it. Blocks that nobody holds stay findable until they are needed for something else, least recently used first.
 */
export class BlockPool {
  private readonly holders: Int32Array;
  /**
   * Blocks without holders in the order in which they may be reused, as a ring of neighbours: entry `numBlocks` is its head.
   * (A Set keeps that order too, but finding its first entry walks over all that were deleted before it.)
   */
  private readonly next: Int32Array;
  private readonly previous: Int32Array;
  private free = 0;
  private readonly byKey = new Map<string, number>();
  private readonly keyOf: (string | null)[];

  constructor(
    readonly numBlocks: number,
    readonly blockSize: number,
  ) {
    this.holders = new Int32Array(numBlocks);
    this.keyOf = new Array<string | null>(numBlocks).fill(null);
    this.next = new Int32Array(numBlocks + 1).fill(numBlocks);
    this.previous = new Int32Array(numBlocks + 1).fill(numBlocks);
    for (let block = 0; block < numBlocks; block++) this.append(block);
  }

  get numFree(): number {
    return this.free;
  }

  private append(block: number): void {
    const { next, previous, numBlocks: head } = this;
    const last = previous[head]!;
    next[last] = block;
    previous[block] = last;
    next[block] = head;
    previous[head] = block;
    this.free++;
  }

  private unlink(block: number): void {
    const { next, previous } = this;
    next[previous[block]!] = next[block]!;
    previous[next[block]!] = previous[block]!;
    this.free--;
  }

  /** A block with one holder, or null when all are held. What it held before can no longer be found. */
  take(): number | null {
    if (this.free === 0) return null;
    const block = this.next[this.numBlocks]!;
    this.unlink(block);
    this.forget(block);
    this.holders[block] = 1;
    return block;
  }

  /** One more holder for a block that is held or idle. */
  hold(block: number): void {
    if (this.holders[block] === 0) this.unlink(block);
    this.holders[block]!++;
  }

  drop(block: number): void {
    const left = --this.holders[block]!;
    if (left < 0) throw new Error(`block ${block} was dropped more often than held`);
    if (left === 0) this.append(block);
  }

  isHeld(block: number): boolean {
    return this.holders[block]! > 0;
  }

  /** Remembers a full block under its key. The first block with a key keeps it. */
  remember(block: number, key: string): void {
    if (this.byKey.has(key) || this.keyOf[block] !== null) return;
    this.byKey.set(key, block);
    this.keyOf[block] = key;
  }

  find(key: string): number | undefined {
    return this.byKey.get(key);
  }

  private forget(block: number): void {
    const key = this.keyOf[block];
    if (key !== null && key !== undefined) this.byKey.delete(key);
    this.keyOf[block] = null;
  }

  /** The contents of all blocks became stale: nothing is found any more. Holders keep what they hold. */
  forgetAll(): void {
    this.byKey.clear();
    this.keyOf.fill(null);
  }
}

/**
 * Keys for the full blocks of a token list: each is a hash of all tokens up to the block's end, chained so that it costs one
 * pass. Two 32-bit lanes plus the position make an accidental match too rare to meet.
 */
export class BlockKeys {
  private low = 0x811c9dc5;
  private high = 0x9747b28c;
  private count = 0;
  readonly keys: string[] = [];

  constructor(private readonly blockSize: number) {}

  extend(tokens: ArrayLike<number>): void {
    for (; this.count < tokens.length; ) {
      const token = tokens[this.count]! + 1;
      this.low = Math.imul(this.low ^ token, 0x01000193) ^ (this.low >>> 15);
      this.high = Math.imul(this.high ^ Math.imul(token, 0x85ebca6b), 0xc2b2ae35) ^ (this.high >>> 13);
      this.count++;
      if (this.count % this.blockSize === 0)
        this.keys.push(`${this.count}:${(this.low >>> 0).toString(36)}${(this.high >>> 0).toString(36)}`);
    }
  }
}
