/** DataProto: the batch that travels from the loader to the optimizer; how it is encoded and kept on disk. */
export * from './data-proto.js';
export {
  decodeDataProto,
  decodeTensor,
  type EncodedDataProto,
  type EncodedTensor,
  encodeDataProto,
  encodeTensor,
  loadDataProto,
  saveDataProto,
} from './encoding.js';
export { shuffledRows } from './shuffle.js';
