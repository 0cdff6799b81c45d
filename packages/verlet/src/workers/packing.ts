/**
 * From padded rows to packed tokens and back. A row is a left-padded prompt and a right-padded response; a model runs over the
 * real tokens of many rows laid end to end. The log-probability of response token j is read at the token before it.
 */
import { noGrad, scope, type Tensor, tensor, zeros } from '@verlet/torch';
import type { DataProto } from '../protocol/index.js';

/** The columns that packing reads, copied out of the batch once. */
export interface RowSource {
  inputIds: Int32Array;
  attentionMask: Uint8Array;
  /** 1 where a token was sampled by the model; only those are scored. */
  responseMask: Uint8Array;
  rows: number;
  width: number;
  responseWidth: number;
}

export function rowSource(batch: DataProto): RowSource {
  const inputIds = batch.tensor('input_ids');
  const responses = batch.tensor('responses');
  const masked = batch.batch.get('response_mask');
  const [rows, width] = inputIds.shape as [number, number];
  const responseWidth = responses.size(1);
  const attentionMask = batch.tensor('attention_mask').toUint8Array();
  const responseMask = masked ? masked.toUint8Array() : tailOf(attentionMask, rows, width, responseWidth);
  return { inputIds: inputIds.toInt32Array(), attentionMask, responseMask, rows, width, responseWidth };
}

function tailOf(mask: Uint8Array, rows: number, width: number, tail: number): Uint8Array {
  const out = new Uint8Array(rows * tail);
  for (let row = 0; row < rows; row++)
    out.set(mask.subarray(row * width + width - tail, (row + 1) * width), row * tail);
  return out;
}

/** Real tokens per row. */
export function sequenceLengths(source: RowSource): number[] {
  return Array.from({ length: source.rows }, (_, row) => {
    let sum = 0;
    for (let k = 0; k < source.width; k++) sum += source.attentionMask[row * source.width + k]!;
    return sum;
  });
}

export interface PackedRows {
  /** Real tokens of all rows, [tokens]. */
  inputIds: Tensor;
  lengths: number[];
  /** Packed index of the hidden state that predicts each scored token, [scored]. */
  predictors: Tensor;
  /** The scored tokens, [scored]. */
  targets: Tensor;
  /** Their places in the flattened [rows, responseWidth], [scored]. */
  places: Tensor;
  /** Places in the batch's own flattened [batch rows, responseWidth], for results that span micro-batches. */
  batchPlaces: Int32Array;
  rows: readonly number[];
  responseWidth: number;
  dispose(): void;
}

export function packRows(source: RowSource, rows: readonly number[], device: string): PackedRows {
  const { width, responseWidth, attentionMask, responseMask, inputIds } = source;
  const promptWidth = width - responseWidth;
  const ids: number[] = [];
  const lengths: number[] = [];
  const predictors: number[] = [];
  const targets: number[] = [];
  const places: number[] = [];
  const batchPlaces: number[] = [];
  for (const [local, row] of rows.entries()) {
    const start = ids.length;
    for (let k = 0; k < width; k++) {
      const at = row * width + k;
      if (attentionMask[at] === 0) continue;
      const response = k - promptWidth;
      // A row without a prompt has nothing that predicts its first token.
      if (response >= 0 && responseMask[row * responseWidth + response] === 1 && ids.length > start) {
        predictors.push(ids.length - 1);
        targets.push(inputIds[at]!);
        places.push(local * responseWidth + response);
        batchPlaces.push(row * responseWidth + response);
      }
      ids.push(inputIds[at]!);
    }
    lengths.push(ids.length - start);
  }
  const long = (values: number[]): Tensor => tensor(Int32Array.from(values), { dtype: 'int64', device }).keep();
  const packed = { inputIds: long(ids), predictors: long(predictors), targets: long(targets), places: long(places) };
  return {
    ...packed,
    lengths,
    batchPlaces: Int32Array.from(batchPlaces),
    rows,
    responseWidth,
    dispose: () => {
      for (const value of Object.values(packed)) value.dispose();
    },
  };
}

/** Scored values [scored] back into [rows, responseWidth], zero elsewhere. */
export function unpack(values: Tensor, packed: PackedRows): Tensor {
  return noGrad(() =>
    scope(() => {
      const flat = zeros([packed.rows.length * packed.responseWidth], { dtype: 'float32', device: values.device });
      return flat.indexCopy_(0, packed.places, values.to('float32')).reshape(packed.rows.length, packed.responseWidth);
    }),
  );
}

/** [rows, responseWidth] to the scored values, [scored]. */
export function pack(padded: Tensor, packed: PackedRows): Tensor {
  return padded.reshape(-1).indexSelect(0, packed.places);
}
