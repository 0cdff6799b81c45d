/** Gradients: libtorch's own engine. */
import { native } from './native.js';
import { Tensor } from './tensor.js';

export interface GradOptions {
  /** Keep the graph for another backward pass. */
  retainGraph?: boolean;
  /** Build a graph of the gradients themselves. */
  createGraph?: boolean;
  /** Give null instead of an error for an input that the outputs do not depend on. */
  allowUnused?: boolean;
}

/** Gradients of `outputs` with respect to `inputs`, without touching any `.grad`. */
export function grad(
  outputs: readonly Tensor[],
  inputs: readonly Tensor[],
  gradOutputs: readonly (Tensor | null)[] = [],
  options: GradOptions = {},
): (Tensor | null)[] {
  const handles = native.grad(
    outputs.map((t) => t.handle),
    inputs.map((t) => t.handle),
    outputs.map((_, k) => gradOutputs[k]?.handle ?? -1),
    options.retainGraph ?? options.createGraph ?? false,
    options.allowUnused ?? false,
    options.createGraph ?? false,
  );
  return handles.map((handle) => (handle === -1 ? null : new Tensor(handle)));
}

/** Accumulates gradients of `outputs` into the `.grad` of the leaves. */
export function backward(
  outputs: readonly Tensor[],
  gradOutputs: readonly (Tensor | null)[] = [],
  options: { retainGraph?: boolean } = {},
): void {
  native.backward(
    outputs.map((t) => t.handle),
    outputs.map((_, k) => gradOutputs[k]?.handle ?? -1),
    options.retainGraph ?? false,
  );
}

function withGradMode<T>(enabled: boolean, body: () => T, name: string): T {
  const before = native.setGradMode(enabled);
  try {
    const result = body();
    if (result instanceof Promise)
      throw new TypeError(`${name}() wants a synchronous function: the mode belongs to the thread`);
    return result;
  } finally {
    native.setGradMode(before);
  }
}

/** Runs `body` without recording operations for gradients. */
export function noGrad<T>(body: () => T): T {
  return withGradMode(false, body, 'noGrad');
}

/** Runs `body` recording operations, inside a `noGrad` too. */
export function enableGrad<T>(body: () => T): T {
  return withGradMode(true, body, 'enableGrad');
}

export function isGradEnabled(): boolean {
  return native.gradMode();
}
