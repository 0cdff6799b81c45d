/** DataProto: the batch that travels from the loader to the optimizer; how it is balanced, encoded and kept on disk. */
export { balancedPartitions, shuffledRows } from './balance.js';
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
