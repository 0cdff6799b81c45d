/** How much of a device's arithmetic a pass used: the operations that the model needs, over what the device could have done. */
import { type CudaMemory, cudaMemory, deviceProperties, full, scope, synchronizeSync } from '@verlet/torch';
import type { ModelConfig } from '../models/config.js';
import type { DataProto } from '../protocol/index.js';

/** Dense bfloat16 TFLOP/s of data sheets, by a part of the device's name; the first that matches counts. */
const SHEETS: readonly [name: RegExp, teraflops: number][] = [
  [/GB200|B300/i, 2500],
  [/B200/i, 2250],
  [/H20(?!0)/i, 148],
  [/H100 PCIe/i, 756],
  [/H100 NVL/i, 835],
  [/H100|H200|H800|GH200/i, 989],
  [/A100|A800/i, 312],
  [/A30/i, 165],
  [/A40|A6000/i, 150],
  [/A10/i, 125],
  [/L40S/i, 362],
  [/L40/i, 181],
  [/L20/i, 119.5],
  [/L4/i, 121],
  [/RTX 5090/i, 209.5],
  [/RTX 4090/i, 165],
  [/RTX 3090/i, 71],
  [/V100/i, 125],
  [/T4/i, 65],
  [/MI300/i, 1307],
];

/** What the sheet of a device promises, null where it is not known. */
export function promisedFlops(deviceName: string): number | null {
  const sheet = SHEETS.find(([name]) => name.test(deviceName));
  return sheet ? sheet[1] * 1e12 : null;
}

const peaks = new Map<string, number>();

/** Operations a second that a device can do: by its sheet, else the best of a few matrix products, once in a process. */
export function peakFlops(device: string): number {
  let peak = peaks.get(device);
  if (peak === undefined) {
    const promised = device.startsWith('cuda') ? promisedFlops(deviceProperties(device).name) : null;
    peak = promised ?? measureFlops(device);
    peaks.set(device, peak);
  }
  return peak;
}

const MEASURE_MS = 30;

/** Without random numbers: measuring must not change what a run draws. */
function measureFlops(device: string): number {
  const isCpu = !device.startsWith('cuda');
  const size = isCpu ? 512 : 4096;
  return scope(() => {
    const factor = full([size, size], 0.5, { dtype: isCpu ? 'float32' : 'bfloat16', device });
    let best = 0;
    const end = performance.now() + MEASURE_MS;
    for (let k = 0; k < 3 || performance.now() < end; k++) {
      const start = performance.now();
      factor.matmul(factor).dispose();
      if (!isCpu) synchronizeSync(device);
      const seconds = (performance.now() - start) / 1000;
      // The first product loads libraries.
      if (k > 0) best = Math.max(best, (2 * size ** 3) / Math.max(seconds, 1e-9));
    }
    return best;
  });
}

/**
 * Operations of one forward pass over sequences of these lengths: two for each parameter in a matrix product and token, and causal
 * attention, which is half of a full one. A backward pass takes twice as many. What is computed again to save memory does not
 * count, nor do embeddings, which are looked up.
 */
export function forwardFlops(config: ModelConfig, lengths: Iterable<number>, headRows = config.vocabSize): number {
  const { hiddenSize, intermediateSize, numHeads, numKvHeads, headDim, numLayers } = config;
  const attention = hiddenSize * headDim * (2 * numHeads + 2 * numKvHeads);
  const parameters = numLayers * (attention + 3 * hiddenSize * intermediateSize) + headRows * hiddenSize;
  let tokens = 0;
  let squares = 0;
  for (const length of lengths) {
    tokens += length;
    squares += length * length;
  }
  return 2 * parameters * tokens + 2 * numLayers * numHeads * headDim * squares;
}

export interface UtilizationOptions {
  config: ModelConfig;
  device: string;
  /** Rows of the head: the vocabulary, or 1 for values. */
  headRows?: number;
  /** How often the batch was passed through, forward alone (1) or with a backward (3 each). */
  passes: number;
}

/**
 * Starts a clock; the returned function says what share of the device's peak the batch took. It is told how many tokens were not
 * computed, over all passes of the batch, because rows share their prompts.
 */
export function startUtilization(batch: DataProto, options: UtilizationOptions): (sharedTokens: number) => number {
  const { config, headRows, passes } = options;
  peakFlops(options.device);
  const lengths = scope(() => batch.tensor('attention_mask').sum(1).toFloat32Array());
  const flops = passes * forwardFlops(config, lengths, headRows);
  // Of a backward and a forward that belong together there are three passes, and they leave out the same tokens.
  const perToken = (passes > 1 ? 3 : 1) * forwardFlops(config, [1], headRows);
  const start = performance.now();
  return (sharedTokens) => {
    const rate = (flops - perToken * sharedTokens) / Math.max((performance.now() - start) / 1000, 1e-9);
    return rate / raisedPeak(options.device, rate);
  };
}

/** A peak that was measured while others held the machine is too low: what a pass reached is a better one. */
export function raisedPeak(device: string, rate: number): number {
  const peak = Math.max(peakFlops(device), rate);
  peaks.set(device, peak);
  return peak;
}

/** The most that this process held of a GPU; nothing on the CPU. */
export function memoryMetrics(
  device: string,
  read: (device: string) => CudaMemory = cudaMemory,
): Record<string, number> {
  if (!device.startsWith('cuda')) return {};
  const { peakAllocated, peakReserved } = read(device);
  return {
    'perf/max_memory_allocated_gb': peakAllocated / 2 ** 30,
    'perf/max_memory_reserved_gb': peakReserved / 2 ** 30,
  };
}
