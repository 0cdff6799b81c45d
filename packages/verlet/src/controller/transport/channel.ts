/** Requests and answers in both directions over one stream. Every request has a deadline; a closed stream fails all of them. */
import type { Duplex } from 'node:stream';
import type { Tensor } from '@verlet/torch';
import { decodeTensor, type EncodedTensor, encodeTensor } from '../../protocol/index.js';
import { encodeFrame, type Frame, FrameReader } from './frames.js';
import { packPayload, unpackPayload } from './payload.js';
import type { SharedMemory } from './shared-memory.js';

export class DeadlineError extends Error {
  override readonly name = 'DeadlineError';
  constructor(
    readonly method: string,
    readonly timeoutMs: number,
  ) {
    super(`${method} was not answered within ${timeoutMs} ms`);
  }
}

export class ChannelClosedError extends Error {
  override readonly name = 'ChannelClosedError';
}

/** What the other end's handler threw. */
export class RemoteError extends Error {
  override readonly name = 'RemoteError';
  constructor(
    readonly remoteName: string,
    readonly remoteMessage: string,
    readonly remoteStack: string,
  ) {
    super(`${remoteName}: ${remoteMessage}`);
  }
}

type Envelope =
  | { kind: 'request'; id: number; method: string; args: unknown[] }
  | { kind: 'notify'; method: string; args: unknown[] }
  | { kind: 'answer'; id: number; value: unknown }
  | { kind: 'error'; id: number; name: string; message: string; stack: string };

/** The first attachment of a message: how its tensors travel. */
interface Bulk {
  file: string | null;
  layouts: Pick<EncodedTensor, 'dtype' | 'shape'>[];
}

export interface ChannelOptions {
  /** Answers the other end's requests. Tensors among the arguments are the handler's to dispose; those of its result too. */
  handle?: (method: string, args: unknown[]) => unknown;
  /** After an answer was sent: the result may be freed. */
  onSent?: (result: unknown) => void;
  onClose?: (error: Error | null) => void;
  sharedMemory?: SharedMemory | null;
  /** Refuse larger frames. */
  maxBytes?: number;
}

interface Waiting {
  method: string;
  resolve(value: unknown): void;
  reject(error: Error): void;
  timer: NodeJS.Timeout;
}

export class Channel {
  private readonly waiting = new Map<number, Waiting>();
  private readonly reader: FrameReader;
  private nextId = 1;
  private closed: Error | null = null;
  sharedMemory: SharedMemory | null;

  constructor(
    private readonly stream: Duplex,
    private readonly options: ChannelOptions = {},
  ) {
    this.sharedMemory = options.sharedMemory ?? null;
    this.reader = new FrameReader((frame) => this.receive(frame), options.maxBytes);
    stream.on('data', (chunk: Uint8Array) => {
      try {
        this.reader.push(chunk);
      } catch (error) {
        this.close(error as Error);
      }
    });
    stream.on('error', (error) => this.close(error));
    stream.on('close', () => this.close(null));
    stream.on('end', () => this.close(null));
  }

  get isClosed(): boolean {
    return this.closed !== null;
  }

  set maxBytes(value: number) {
    this.reader.maxBytes = value;
  }

  request(method: string, args: unknown[], options: { timeoutMs: number }): Promise<unknown> {
    const id = this.nextId++;
    return new Promise((resolve, reject) => {
      if (this.closed) {
        reject(this.closed);
        return;
      }
      const { timeoutMs } = options;
      const timer = setTimeout(
        () => {
          this.waiting.delete(id);
          reject(new DeadlineError(method, timeoutMs));
        },
        // The longest that Node's timers take: 24 days.
        Math.min(timeoutMs, 2 ** 31 - 1),
      );
      this.waiting.set(id, { method, resolve, reject, timer });
      try {
        this.send({ kind: 'request', id, method, args });
      } catch (error) {
        this.settle(id)?.reject(error as Error);
      }
    });
  }

  notify(method: string, args: unknown[]): void {
    if (!this.closed) this.send({ kind: 'notify', method, args });
  }

  close(error: Error | null = null): void {
    if (this.closed) return;
    this.closed = new ChannelClosedError(error ? `the connection broke: ${error.message}` : 'the connection closed', {
      cause: error ?? undefined,
    });
    for (const id of [...this.waiting.keys()]) this.settle(id)?.reject(this.closed);
    this.stream.destroy();
    this.options.onClose?.(error);
  }

  private settle(id: number): Waiting | undefined {
    const entry = this.waiting.get(id);
    this.waiting.delete(id);
    if (entry) clearTimeout(entry.timer);
    return entry;
  }

  private send(envelope: Envelope): void {
    const { header, tensors } = packPayload(envelope);
    const bulk: Bulk = { file: null, layouts: [] };
    let bytes: Uint8Array[] = [];
    if (tensors.length > 0) {
      const total = tensors.reduce((sum, tensor) => sum + tensor.nbytes, 0);
      if (this.sharedMemory && total >= this.sharedMemory.threshold) bulk.file = this.sharedMemory.put(tensors);
      if (bulk.file !== null) bulk.layouts = tensors.map(({ dtype, shape }) => ({ dtype, shape }));
      else
        bytes = tensors.map((tensor) => {
          const { bytes, ...layout } = encodeTensor(tensor);
          bulk.layouts.push(layout);
          return bytes;
        });
    }
    const attachments = tensors.length > 0 ? [packPayload(bulk).header, ...bytes] : [];
    for (const part of encodeFrame({ header, attachments })) this.stream.write(part);
  }

  private receive(frame: Frame): void {
    const envelope = unpackPayload(frame.header, this.tensorsOf(frame.attachments)) as Envelope;
    if (envelope.kind === 'answer') {
      const entry = this.settle(envelope.id);
      if (entry) entry.resolve(envelope.value);
    } else if (envelope.kind === 'error')
      this.settle(envelope.id)?.reject(new RemoteError(envelope.name, envelope.message, envelope.stack));
    else void this.answer(envelope);
  }

  private tensorsOf(attachments: Uint8Array[]): Tensor[] {
    const [first, ...bytes] = attachments;
    if (!first) return [];
    const { file, layouts } = unpackPayload(first, []) as Bulk;
    if (file === null) return layouts.map((layout, k) => decodeTensor({ ...layout, bytes: bytes[k]! }).keep());
    if (!this.sharedMemory) throw new Error('the other end sent a shared-memory file, but none was agreed on');
    return this.sharedMemory.take(file, layouts.length);
  }

  private async answer(request: Extract<Envelope, { kind: 'request' | 'notify' }>): Promise<void> {
    const id = request.kind === 'request' ? request.id : null;
    try {
      if (!this.options.handle) throw new Error(`nobody answers ${request.method} here`);
      const value = await this.options.handle(request.method, request.args);
      if (id !== null && !this.closed) this.send({ kind: 'answer', id, value });
      this.options.onSent?.(value);
    } catch (error) {
      if (id === null || this.closed) return;
      const { name, message, stack } = error instanceof Error ? error : new Error(String(error));
      this.send({ kind: 'error', id, name, message, stack: stack ?? message });
    }
  }
}
