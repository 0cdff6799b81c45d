/** Values between processes: plain data in msgpack, tensors and batches lifted out as raw attachments. */
import { type DType, Tensor } from '@verlet/torch';
import { addExtension, Packr } from 'msgpackr';
import { DataProto } from '../../protocol/index.js';

/** A value without its tensors; they stand beside it in the order of their numbers. */
export interface Packed {
  header: Uint8Array;
  tensors: Tensor[];
}

// Packing and unpacking are synchronous: what they lift out or put in stands here meanwhile.
let lifted: Tensor[] = [];
let given: readonly Tensor[] = [];

addExtension({
  Class: Tensor,
  type: 0x54,
  write(value: Tensor): { index: number; dtype: DType } {
    return { index: lifted.push(value) - 1, dtype: value.dtype };
  },
  read({ index }: { index: number }): Tensor {
    const value = given[index];
    if (!value) throw new RangeError(`the message names tensor ${index}, but carries ${given.length}`);
    return value;
  },
});

addExtension({
  Class: DataProto,
  type: 0x44,
  write(value: DataProto): [unknown, unknown, unknown] {
    return [[...value.batch], [...value.nonTensorBatch], value.metaInfo];
  },
  read([tensors, nonTensors, metaInfo]: [
    [string, Tensor][],
    [string, unknown[]][],
    Record<string, unknown>,
  ]): DataProto {
    return new DataProto(tensors, nonTensors, metaInfo);
  },
});

class PlainDataPackr extends Packr {
  /** Called by msgpackr for functions, which it would otherwise drop silently. */
  writeFunction(value: (...args: unknown[]) => unknown): never {
    throw new TypeError(
      `the function ${value.name || '(unnamed)'} cannot go to another process; name a module by path in the configuration, or use trainer.launcher=inline`,
    );
  }
}

// Records write the keys of rows of one shape once, and let Map and object be told apart.
const packr = new PlainDataPackr({ moreTypes: true, useRecords: true, mapsAsObjects: false });

/** The tensors stay the caller's. */
export function packPayload(value: unknown): Packed {
  lifted = [];
  try {
    const header = Uint8Array.from(packr.pack(value));
    return { header, tensors: lifted };
  } finally {
    lifted = [];
  }
}

/** Puts the tensors back in; they belong to the result from now on. */
export function unpackPayload(header: Uint8Array, tensors: readonly Tensor[]): unknown {
  given = tensors;
  try {
    return packr.unpack(header);
  } catch (error) {
    for (const tensor of tensors) tensor.dispose();
    throw error;
  } finally {
    given = [];
  }
}
