import { close, closeSync, fstat, open, read } from 'node:fs';
import { promisify } from 'node:util';

const openFile = promisify(open);
const statFile = promisify(fstat);
const readFile = promisify(read);
const closeFile = promisify(close);

/** A table that is dropped without `close` gives its descriptor back with its memory. */
const forgotten = new FinalizationRegistry<number>((descriptor) => closeSync(descriptor));

/** Byte ranges of an open file. */
export class FileReader {
  private constructor(
    readonly path: string,
    private descriptor: number | null,
    readonly size: number,
  ) {
    forgotten.register(this, descriptor as number, this);
  }

  static async open(path: string): Promise<FileReader> {
    const descriptor = await openFile(path, 'r');
    const { size } = await statFile(descriptor);
    return new FileReader(path, descriptor, size);
  }

  async read(start: number, end: number): Promise<Buffer<ArrayBuffer>> {
    if (this.descriptor === null) throw new Error(`${this.path} is closed`);
    const bytes = Buffer.from(new ArrayBuffer(Math.max(0, end - start)));
    for (let filled = 0; filled < bytes.length; ) {
      const { bytesRead } = await readFile(this.descriptor, bytes, filled, bytes.length - filled, start + filled);
      if (bytesRead === 0) throw new Error(`the file ends at byte ${start + filled}`);
      filled += bytesRead;
    }
    return bytes;
  }

  async close(): Promise<void> {
    if (this.descriptor === null) return;
    const descriptor = this.descriptor;
    this.descriptor = null;
    forgotten.unregister(this);
    await closeFile(descriptor);
  }
}
