import { type AdamW, clipGradNorm, type nn, type Tensor } from '@verlet/torch';
import { NonFiniteError } from '../../workers/optimizer-step.js';

/** Clips what the passes left on the parameters and takes the step. Returns the length of the gradient before clipping. */
export function applyGradients(model: nn.Module, optimizer: AdamW, clip: number, loss: number): number {
  const gradients = new Map<string, Tensor>();
  for (const [name, parameter] of model.namedParameters())
    if (parameter.gradient) gradients.set(name, parameter.gradient);
  const { norm, finite } = clipGradNorm(gradients, clip || Number.POSITIVE_INFINITY);
  if (!finite || !Number.isFinite(loss)) {
    model.clearGradients();
    throw new NonFiniteError(`the loss is ${loss}, the gradient's norm ${norm}`);
  }
  optimizer.step(gradients);
  model.clearGradients();
  return norm;
}
