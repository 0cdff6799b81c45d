/** CUDA beyond tensors: graphs, streams, events for timing, memory. Everything here says so when there is no CUDA. */

import type { DType } from './dtype.js';
import { TorchError } from './errors.js';
import * as aten from './generated/ops.js';
import { buildRecord, native as loaded } from './load.js';
import type { Tensor } from './tensor.js';

type StreamPair = [id: number, device: number];

/** Memory that several graphs may share when they are replayed in the order of their capture. */
export type GraphPool = readonly [number, number];

export interface DeviceProperties {
  name: string;
  multiprocessors: number;
  totalMemory: number;
  /** Compute capability, such as `9.0`. */
  capability: string;
  l2CacheBytes: number;
}

/** Bytes, as libtorch's caching allocator and the driver count them. */
export interface CudaMemory {
  allocated: number;
  peakAllocated: number;
  reserved: number;
  peakReserved: number;
  allocationRetries: number;
  outOfMemory: number;
  free: number;
  total: number;
}

interface CudaNative {
  setDevice(device: number): number;
  properties(device: number): DeviceProperties;
  memoryStats(device: number): CudaMemory;
  resetPeak(device: number): void;
  emptyCache(): void;
  synchronize(device: number, async: boolean): Promise<void> | undefined;
  currentStream(device: number): StreamPair;
  newStream(device: number, highPriority: boolean): StreamPair;
  setStream(id: number, device: number): void;
  streamQuery(id: number, device: number): boolean;
  streamSynchronize(id: number, device: number, async: boolean): Promise<void> | undefined;
  recordStream(tensor: number, id: number, device: number): void;
  newEvent(device: number, timing: boolean): unknown;
  eventRecord(event: unknown, id: number, device: number): void;
  streamWaitEvent(event: unknown, id: number, device: number): void;
  eventQuery(event: unknown): boolean;
  eventSynchronize(event: unknown, async: boolean): Promise<void> | undefined;
  eventElapsed(start: unknown, end: unknown): number;
  eventDispose(event: unknown): void;
  newPool(): GraphPool;
  graphBegin(device: number, poolFirst: number, poolSecond: number): unknown;
  graphEnd(graph: unknown): GraphPool;
  graphReplay(graph: unknown): void;
  graphDispose(graph: unknown): void;
  nvtxPush(name: string): void;
  nvtxPop(): void;
}

const compiled = loaded.cuda as CudaNative | undefined;
const current = -1;

function cuda(): CudaNative {
  if (compiled) return compiled;
  throw new TorchError(
    buildRecord.variant === 'cuda'
      ? 'the addon was built without the CUDA headers: set CUDA_HOME and run npm rebuild @verlet/torch'
      : `the addon is built on the CPU libtorch ${buildRecord.version}: on a machine with an NVIDIA GPU run VERLET_TORCH=cuda npm rebuild @verlet/torch`,
  );
}

/** The number in `cuda:n`; nothing or `cuda` is the current device. */
function indexOf(device: string | number | undefined): number {
  if (device === undefined || device === 'cuda') return current;
  if (typeof device === 'number') return device;
  const match = /^cuda:(\d+)$/.exec(device);
  if (!match) throw new TorchError(`'${device}' is not a CUDA device; they are named cuda:0, cuda:1 ...`);
  return Number(match[1]);
}

/** Makes a device the current one and gives the index of the one before. */
export function setCudaDevice(device: string | number): number {
  return cuda().setDevice(indexOf(device));
}

export function deviceProperties(device?: string | number): DeviceProperties {
  return cuda().properties(indexOf(device));
}

export function cudaMemory(device?: string | number): CudaMemory {
  return cuda().memoryStats(indexOf(device));
}

export function resetPeakMemory(device?: string | number): void {
  cuda().resetPeak(indexOf(device));
}

/** Gives cached, unused memory back to the driver. */
export function emptyCudaCache(): void {
  cuda().emptyCache();
}

/** Waits until a device has done all that was queued on it, letting the event loop go on. */
export async function synchronize(device?: string | number): Promise<void> {
  await cuda().synchronize(indexOf(device), true);
}

export function synchronizeSync(device?: string | number): void {
  cuda().synchronize(indexOf(device), false);
}

/** An uninitialised tensor in page-locked memory: copies between it and a device can run beside other work. */
export function emptyPinned(shape: readonly number[], options: { dtype?: DType } = {}): Tensor {
  cuda();
  return aten.empty_memory_format(shape, options.dtype ?? 'float32', null, 'cpu', true);
}

export class CudaStream {
  private constructor(
    readonly id: number,
    readonly device: number,
  ) {}

  static current(device?: string | number): CudaStream {
    return new CudaStream(...cuda().currentStream(indexOf(device)));
  }

  /** A side stream. libtorch keeps a fixed number of them per device and hands them out in turn. */
  static create(options: { device?: string | number; highPriority?: boolean } = {}): CudaStream {
    return new CudaStream(...cuda().newStream(indexOf(options.device), options.highPriority ?? false));
  }

  /** Runs `body` with this as the current stream of its device. */
  run<T>(body: () => T): T {
    const before = CudaStream.current(this.device);
    cuda().setStream(this.id, this.device);
    try {
      return body();
    } finally {
      cuda().setStream(before.id, before.device);
    }
  }

  /** True when nothing is left to do on it. */
  get isIdle(): boolean {
    return cuda().streamQuery(this.id, this.device);
  }

  /** What is queued here from now on waits for what is queued on the other stream by now. */
  waitFor(other: CudaStream): void {
    using event = new CudaEvent({ device: other.device, timing: false });
    event.record(other);
    event.block(this);
  }

  async synchronize(): Promise<void> {
    await cuda().streamSynchronize(this.id, this.device, true);
  }

  synchronizeSync(): void {
    cuda().streamSynchronize(this.id, this.device, false);
  }

  /** The tensor is used on this stream: its memory is not given to others before that use is done. */
  protect(tensor: Tensor): void {
    cuda().recordStream(tensor.handle, this.id, this.device);
  }
}

/**
 * A mark in a stream.
 *
 * @example
 * const start = new CudaEvent().record();
 * work();
 * const end = new CudaEvent().record();
 * await end.synchronize();
 * console.log(start.elapsed(end), 'ms');
 */
export class CudaEvent {
  private readonly handle: unknown;
  private readonly device: number;

  constructor(options: { device?: string | number; timing?: boolean } = {}) {
    this.device = indexOf(options.device);
    this.handle = cuda().newEvent(this.device, options.timing ?? true);
  }

  record(stream: CudaStream = CudaStream.current(this.device)): this {
    cuda().eventRecord(this.handle, stream.id, stream.device);
    return this;
  }

  /** What is queued on the stream from now on waits for this mark. */
  block(stream: CudaStream = CudaStream.current(this.device)): void {
    cuda().streamWaitEvent(this.handle, stream.id, stream.device);
  }

  /** True when the device has passed the mark. */
  get isDone(): boolean {
    return cuda().eventQuery(this.handle);
  }

  async synchronize(): Promise<void> {
    await cuda().eventSynchronize(this.handle, true);
  }

  synchronizeSync(): void {
    cuda().eventSynchronize(this.handle, false);
  }

  /** Milliseconds from this mark to a later one; both must be done. */
  elapsed(end: CudaEvent): number {
    return cuda().eventElapsed(this.handle, end.handle);
  }

  dispose(): void {
    cuda().eventDispose(this.handle);
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}

/** A pool of memory for several graphs. */
export function newGraphPool(): GraphPool {
  return cuda().newPool();
}

/**
 * A recorded sequence of kernels that is launched as one. Shapes and addresses are fixed: inputs are written into the tensors
 * that the capture read, results are read from those that it wrote. Run the body once or twice before capturing it.
 *
 * @example
 * step();
 * const graph = CudaGraph.capture(() => step());
 * input.copy_(next);
 * graph.replay();
 */
export class CudaGraph {
  private constructor(
    private readonly handle: unknown,
    /** Give it to later captures that are replayed after this one, so that they share memory. */
    readonly pool: GraphPool,
  ) {}

  static capture(body: () => void, options: { device?: string | number; pool?: GraphPool } = {}): CudaGraph {
    const [first, second] = options.pool ?? [0, 0];
    const handle = cuda().graphBegin(indexOf(options.device), first, second);
    try {
      const result: unknown = body();
      if (result instanceof Promise) throw new TypeError('CudaGraph.capture() wants a synchronous function');
    } catch (error) {
      try {
        cuda().graphEnd(handle);
      } catch {
        // The capture is void after a failed kernel; what went wrong first is what matters.
      }
      cuda().graphDispose(handle);
      throw error;
    }
    return new CudaGraph(handle, cuda().graphEnd(handle));
  }

  replay(): void {
    compiled!.graphReplay(this.handle);
  }

  /** Frees the graph and, when no other uses it, its memory pool. Waits for the device. */
  dispose(): void {
    cuda().graphDispose(this.handle);
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}

/** Names a stretch of work for NVIDIA's profilers. */
export function nvtxRange<T>(name: string, body: () => T): T {
  cuda().nvtxPush(name);
  try {
    return body();
  } finally {
    cuda().nvtxPop();
  }
}

/** Opens a stretch that may last over `await`s, for NVIDIA's profilers; the returned call ends it. Stretches must nest. */
export function nvtxBegin(name: string): () => void {
  cuda().nvtxPush(name);
  return () => void cuda().nvtxPop();
}
