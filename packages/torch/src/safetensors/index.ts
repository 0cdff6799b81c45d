/** safetensors files: read by mapping them into memory, written streamed and atomically, one file or sharded with an index. */
export { type SafetensorsDType, SafetensorsError, type TensorInfo } from './header.js';
export { openSafetensors, type SafetensorsReader } from './read.js';
export { type LazyTensor, type SaveOptions, type SaveResult, saveSafetensors } from './write.js';
