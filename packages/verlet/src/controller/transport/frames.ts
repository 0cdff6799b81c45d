/**
 * One message on a byte stream: a fixed prefix, the lengths of the attachments, the header, the attachments as they are.
 *
 *   u32 magic | u32 header length | u32 number of attachments | u64 length each | header | attachments
 */
export interface Frame {
  header: Uint8Array;
  attachments: Uint8Array[];
}

export class FrameError extends Error {
  override readonly name = 'FrameError';
}

const magic = 0x56_4c_54_31;
const prefixBytes = 12;
const maxAttachments = 65_536;

/** The frame as buffers to write one after the other; the attachments are not copied. */
export function encodeFrame({ header, attachments }: Frame): Uint8Array[] {
  if (attachments.length > maxAttachments) throw new FrameError(`${attachments.length} attachments in one message`);
  const prefix = Buffer.allocUnsafe(prefixBytes + 8 * attachments.length);
  prefix.writeUInt32LE(magic, 0);
  prefix.writeUInt32LE(header.length, 4);
  prefix.writeUInt32LE(attachments.length, 8);
  for (const [k, part] of attachments.entries()) prefix.writeBigUInt64LE(BigInt(part.length), prefixBytes + 8 * k);
  return [prefix, header, ...attachments.filter((part) => part.length > 0)];
}

/** Puts frames together from chunks of any size. Every byte of an attachment is copied once, into its own buffer. */
export class FrameReader {
  private wanted: Uint8Array = Buffer.alloc(prefixBytes);
  private filled = 0;
  private stage: 'prefix' | 'lengths' | 'body' = 'prefix';
  private body: Uint8Array[] = [];
  private at = 0;
  private headerLength = 0;

  constructor(
    private readonly onFrame: (frame: Frame) => void,
    /** Frames above this are refused; small until the other end has said who it is. */
    public maxBytes = Number.POSITIVE_INFINITY,
  ) {}

  push(chunk: Uint8Array): void {
    let from = 0;
    while (from < chunk.length) {
      const count = Math.min(chunk.length - from, this.wanted.length - this.filled);
      this.wanted.set(chunk.subarray(from, from + count), this.filled);
      this.filled += count;
      from += count;
      if (this.filled === this.wanted.length) this.advance();
    }
  }

  private want(target: Uint8Array): void {
    this.wanted = target;
    this.filled = 0;
  }

  private advance(): void {
    if (this.stage === 'prefix') {
      const prefix = Buffer.from(this.wanted.buffer, this.wanted.byteOffset, prefixBytes);
      if (prefix.readUInt32LE(0) !== magic) throw new FrameError('the other end does not speak this protocol');
      this.headerLength = prefix.readUInt32LE(4);
      const count = prefix.readUInt32LE(8);
      if (count > maxAttachments) throw new FrameError(`a message announces ${count} attachments`);
      this.check(this.headerLength);
      this.stage = 'lengths';
      this.want(Buffer.alloc(8 * count));
      if (count > 0) return;
    }
    if (this.stage === 'lengths') {
      const lengths = Buffer.from(this.wanted.buffer, this.wanted.byteOffset, this.wanted.length);
      const sizes = [this.headerLength];
      for (let k = 0; k < lengths.length; k += 8) sizes.push(Number(lengths.readBigUInt64LE(k)));
      this.check(sizes.reduce((sum, size) => sum + size, 0));
      this.body = sizes.map((size) => Buffer.allocUnsafeSlow(size));
      this.at = -1;
      this.stage = 'body';
      this.nextPart();
      return;
    }
    this.nextPart();
  }

  /** Moves on to the next part that has bytes; after the last one the frame is whole. */
  private nextPart(): void {
    do this.at++;
    while (this.at < this.body.length && this.body[this.at]!.length === 0);
    if (this.at < this.body.length) {
      this.want(this.body[this.at]!);
      return;
    }
    const [header, ...attachments] = this.body as [Uint8Array, ...Uint8Array[]];
    this.body = [];
    this.stage = 'prefix';
    this.want(Buffer.alloc(prefixBytes));
    this.onFrame({ header, attachments });
  }

  private check(bytes: number): void {
    if (bytes > this.maxBytes) throw new FrameError(`a message of ${bytes} bytes where ${this.maxBytes} are allowed`);
  }
}
