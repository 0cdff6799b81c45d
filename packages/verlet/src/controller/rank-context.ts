/** A rank's place among its peers over c10d: Gloo on CPU, NCCL on CUDA. */
import { cat, type ProcessGroup, scope, type Tensor, tensor } from '@verlet/torch';
import type { WorkerContext } from '../workers/context.js';

/** Gradients travel in buckets of about this size: few calls for many small tensors, little memory for the copies. */
const bucketBytes = 25 * 2 ** 20;

export interface RankContextOptions {
  device: string;
  /** Told when the rank starts (true) and stops waiting for its peers. */
  onWaiting?: (waiting: boolean) => void;
}

export function rankContext(group: ProcessGroup, options: RankContextOptions): WorkerContext {
  const { device, onWaiting } = options;
  const reduce = (value: Tensor): void => {
    onWaiting?.(true);
    try {
      group.allReduceSync(value, 'sum');
    } finally {
      onWaiting?.(false);
    }
  };
  return {
    rank: group.rank,
    worldSize: group.worldSize,
    device,
    sum: (value) =>
      scope(() => {
        const total = tensor([value], { dtype: 'float64', device: group.backend === 'nccl' ? device : 'cpu' });
        reduce(total);
        return total.item();
      }),
    allReduce(tensors) {
      for (const bucket of buckets(tensors)) reduceBucket(bucket, reduce);
    },
  };
}

/** Neighbours of one dtype and device, up to the bucket size. All ranks see the same tensors in the same order. */
export function* buckets(tensors: Iterable<Tensor>, limit = bucketBytes): Generator<Tensor[]> {
  let bucket: Tensor[] = [];
  let bytes = 0;
  for (const value of tensors) {
    const [first] = bucket;
    if (first && (bytes + value.nbytes > limit || value.dtype !== first.dtype || value.device !== first.device)) {
      yield bucket;
      bucket = [];
      bytes = 0;
    }
    bucket.push(value);
    bytes += value.nbytes;
  }
  if (bucket.length > 0) yield bucket;
}

function reduceBucket(bucket: readonly Tensor[], reduce: (value: Tensor) => void): void {
  const [only] = bucket;
  if (bucket.length === 1 && only!.isContiguous) {
    reduce(only!);
    return;
  }
  scope(() => {
    const flat = cat(bucket.map((value) => value.detach().reshape(-1)));
    reduce(flat);
    let at = 0;
    for (const value of bucket) {
      const count = value.numel;
      value.detach().copy_(flat.narrow(0, at, count).reshape(...value.shape));
      at += count;
    }
  });
}
