/** libtorch for Node.js: tensors, autograd, modules, optimizers, safetensors, CUDA graphs and process groups. */
export * from './autograd.js';
export * from './create.js';
export * from './cuda.js';
export * from './distributed.js';
export { type OperatorArgument, operator, operatorSchemas } from './door.js';
export * from './dtype.js';
export { TorchError } from './errors.js';
export * as aten from './generated/ops.js';
export type { AnyTypedArray, BuildInfo } from './native.js';
export * as nn from './nn/index.js';
export * from './optim/index.js';
export * from './random.js';
export * from './runtime.js';
export * from './safetensors/index.js';
export { liveTensors, scope } from './scope.js';
export { Tensor } from './tensor.js';
export type { NestedNumbers } from './tensor-handle.js';
