/** How much memory the key-value cache may take where nobody says so. */
import { cudaMemory } from '@verlet/torch';

const cpuBytes = 2 * 2 ** 30;
/** Activations of a prompt pass and the graphs' own memory come on top. */
const reserve = 2 * 2 ** 30;

export function cacheBudget(device: string, gpuMemoryUtilization = 0.5): number {
  if (!device.startsWith('cuda')) return cpuBytes;
  const { total, free, reserved, allocated } = cudaMemory(device);
  // What the allocator holds without using it can be given back.
  const available = free + reserved - allocated;
  return Math.max(0, Math.min(total * gpuMemoryUtilization - allocated, available - reserve));
}
