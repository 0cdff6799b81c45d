/** The length of the gradient, and keeping it below a limit. */
import { noGrad } from '../autograd.js';
import { zeros } from '../create.js';
import * as aten from '../generated/ops.js';
import { scope } from '../scope.js';
import { Tensor } from '../tensor.js';

type Gradients = Iterable<Tensor | null | undefined> | ReadonlyMap<string, Tensor>;

export interface ClipResult {
  /** The length before clipping. */
  norm: number;
  /** False when some gradient is infinite or not a number; then nothing was scaled and the step should be left out. */
  finite: boolean;
  clipped: boolean;
}

function listOf(grads: Gradients): Tensor[] {
  const values = grads instanceof Map ? grads.values() : (grads as Iterable<Tensor | null | undefined>);
  return [...values].filter((grad): grad is Tensor => grad instanceof Tensor);
}

/** The 2-norm over all gradients together as a float32 scalar on the first one's device. Sums in float32 for 16-bit ones. */
export function gradNorm(grads: Gradients): Tensor {
  return scope(() =>
    noGrad(() => {
      const list = listOf(grads);
      if (list.length === 0) return zeros([]);
      const device = list[0]!.device;
      const norms: Tensor[] = [];
      for (const group of byDeviceAndDType(list))
        for (const norm of aten._foreach_norm_Scalar(group, 2, 'float32')) norms.push(norm.to(device));
      return aten.stack(norms).norm();
    }),
  );
}

/** libtorch's list operators take their slow way when dtypes or devices are mixed. */
function byDeviceAndDType(tensors: Tensor[]): Tensor[][] {
  const groups = new Map<string, Tensor[]>();
  for (const tensor of tensors) {
    const key = `${tensor.device} ${tensor.dtype}`;
    const group = groups.get(key);
    if (group) group.push(tensor);
    else groups.set(key, [tensor]);
  }
  return [...groups.values()];
}

/**
 * Scales the gradients in place so that their common length is at most `maxNorm`. Waits for the device once. Ranks that hold
 * only a part of the gradients give the length over all parts as `norm`.
 */
export function clipGradNorm(grads: Gradients, maxNorm: number, options: { norm?: number } = {}): ClipResult {
  const list = listOf(grads);
  const norm = options.norm ?? scope(() => gradNorm(list).item());
  if (!Number.isFinite(norm)) return { norm, finite: false, clipped: false };
  // The same small constant as in PyTorch, so that clipped steps agree.
  const factor = maxNorm / (norm + 1e-6);
  if (factor >= 1) return { norm, finite: true, clipped: false };
  noGrad(() => {
    for (const group of byDeviceAndDType(list)) aten._foreach_mul__Scalar(group, factor);
  });
  return { norm, finite: true, clipped: true };
}
