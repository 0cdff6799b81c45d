/**
 * Tensors between processes of one host by file in memory: the sender writes once, the receiver maps the pages and removes the
 * name, so that the memory goes when the last tensor of it goes.
 */
import { existsSync, mkdirSync, rmSync } from 'node:fs';
import path from 'node:path';
import { openSafetensors, saveSafetensors, type Tensor } from '@verlet/torch';
import { makeFolder } from './folders.js';

const root = '/dev/shm';

export class SharedMemory {
  private sent = 0;

  constructor(
    readonly folder: string,
    /** Below this many bytes a message goes through the socket. Above, copies of tensors would start libtorch's threads. */
    readonly threshold = 128 * 1024,
    private readonly save: typeof saveSafetensors = saveSafetensors,
  ) {}

  /** A folder for the ranks of this controller; null where the system has no memory file system. */
  static create(): SharedMemory | null {
    if (!existsSync(root)) return null;
    try {
      return new SharedMemory(makeFolder(root));
    } catch {
      return null;
    }
  }

  /** The name of the file that holds them now; null where memory is full (containers often have 64 MB of it). */
  put(tensors: readonly Tensor[]): string | null {
    mkdirSync(this.folder, { recursive: true });
    const name = `${process.pid}-${this.sent++}.safetensors`;
    try {
      this.save(
        path.join(this.folder, name),
        tensors.map((value, k): [string, Tensor] => [String(k), value]),
      );
      return name;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOSPC') return null;
      throw error;
    }
  }

  take(name: string, count: number): Tensor[] {
    if (path.basename(name) !== name) throw new RangeError(`'${name}' is not a plain file name`);
    const file = path.join(this.folder, name);
    using reader = openSafetensors(file);
    const tensors = Array.from({ length: count }, (_, k) => reader.tensor(String(k)).keep());
    rmSync(file);
    return tensors;
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}
