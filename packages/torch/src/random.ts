/** Randomness: libtorch's generators with their state, and noise that is a pure function of a key. */
import * as aten from './generated/ops.js';
import { native } from './native.js';
import { Tensor } from './tensor.js';

/** Seeds the generators of all devices. */
export function manualSeed(seed: number): void {
  if (!Number.isSafeInteger(seed)) throw new RangeError(`a seed is an integer up to 2^53, got ${seed}`);
  native.manualSeed(seed);
}

/** The state of a device's generator, to be given back to `setGeneratorState` later. */
export function generatorState(device = 'cpu'): Tensor {
  return new Tensor(native.generatorState(device));
}

export function setGeneratorState(state: Tensor, device = 'cpu'): void {
  native.setGeneratorState(device, state.handle);
}

/**
 * Uniform noise in (0, 1), [rows, n], where row k depends on (seed[k], stream[k], position[k]) and on nothing else: not on
 * the batch, not on what was drawn before. All three are int64 vectors.
 */
export function keyedUniform(seed: Tensor, stream: Tensor, position: Tensor, n = 1): Tensor {
  return aten.verlet_keyed_uniform(seed, stream, position, n);
}
