import { type FileHandle, open, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { deserialize, serialize } from 'node:v8';
import type { Row } from './types.js';

/** Rows in a temporary file, each found directly by its offset. The file has no name once it is open. */
export class RowSpill {
  private constructor(
    private readonly handle: FileHandle,
    private readonly offsets: number[],
  ) {}

  static async write(rows: AsyncIterable<Row>): Promise<RowSpill> {
    const path = join(tmpdir(), `verlet-rows-${process.pid}-${Math.random().toString(36).slice(2)}`);
    const handle = await open(path, 'wx+', 0o600);
    // The descriptor keeps the data alive; nothing is left behind when the process dies.
    await rm(path, { force: true }).catch(() => {});
    const offsets = [0];
    let size = 0;
    let pending: Buffer[] = [];
    let pendingSize = 0;
    const flush = async () => {
      await handle.appendFile(Buffer.concat(pending));
      pending = [];
      pendingSize = 0;
    };
    for await (const row of rows) {
      const bytes = serialize(row);
      pending.push(bytes);
      pendingSize += bytes.length;
      size += bytes.length;
      offsets.push(size);
      if (pendingSize > 4 << 20) await flush();
    }
    await flush();
    return new RowSpill(handle, offsets);
  }

  async row(index: number): Promise<Row> {
    const start = this.offsets[index] as number;
    const bytes = Buffer.alloc((this.offsets[index + 1] as number) - start);
    await this.handle.read(bytes, 0, bytes.length, start);
    return deserialize(bytes) as Row;
  }

  async close(): Promise<void> {
    await this.handle.close();
  }
}
