/** DataProto: the batch that travels from the loader to the optimizer. */
export * from './data-proto.js';
