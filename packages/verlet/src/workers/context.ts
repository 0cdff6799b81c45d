/** Where a worker stands among its peers, and how they add things up. */
import type { Tensor } from '@verlet/torch';

export interface WorkerContext {
  rank: number;
  worldSize: number;
  device: string;
  /** Sums one number over all ranks. */
  sum(value: number): number;
  /** Sums tensors over all ranks, in place. */
  allReduce(tensors: Iterable<Tensor>): void;
}

export function singleProcess(device: string): WorkerContext {
  return { rank: 0, worldSize: 1, device, sum: (value) => value, allReduce: () => {} };
}
