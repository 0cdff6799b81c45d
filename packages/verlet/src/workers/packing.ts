/**
 * From padded rows to packed tokens and back. A row is a left-padded prompt and a right-padded response; a model runs over the
 * real tokens of many rows laid end to end. The log-probability of response token j is read at the token before it. A prompt
 * that several rows have is laid once, and their responses go on from it: its tokens are computed once.
 */
import { noGrad, scope, type Tensor, tensor, zeros } from '@verlet/torch';
import type { ModelConfig } from '../models/config.js';
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
  /** For each row the first one that has the same prompt. */
  promptOf: Int32Array;
}

export function rowSource(batch: DataProto): RowSource {
  const inputIds = batch.tensor('input_ids');
  const responses = batch.tensor('responses');
  const masked = batch.batch.get('response_mask');
  const [rows, width] = inputIds.shape as [number, number];
  const responseWidth = responses.size(1);
  const attentionMask = batch.tensor('attention_mask').toUint8Array();
  const responseMask = masked ? masked.toUint8Array() : tailOf(attentionMask, rows, width, responseWidth);
  const ids = inputIds.toInt32Array();
  const promptOf = equalPrompts(ids, attentionMask, rows, width, width - responseWidth);
  return { inputIds: ids, attentionMask, responseMask, rows, width, responseWidth, promptOf };
}

function equalPrompts(ids: Int32Array, mask: Uint8Array, rows: number, width: number, promptWidth: number): Int32Array {
  const promptOf = new Int32Array(rows);
  const byHash = new Map<number, number[]>();
  for (let row = 0; row < rows; row++) {
    const start = row * width;
    let hash = 0;
    for (let k = start; k < start + promptWidth; k++) hash = Math.imul(hash ^ (2 * ids[k]! + mask[k]!), 0x01000193);
    const isEqual = (other: number): boolean => {
      for (let k = 0; k < promptWidth; k++)
        if (ids[start + k] !== ids[other * width + k] || mask[start + k] !== mask[other * width + k]) return false;
      return true;
    };
    const known = byHash.get(hash);
    const first = known?.find(isEqual);
    promptOf[row] = first ?? row;
    if (!known) byHash.set(hash, [row]);
    else if (first === undefined) known.push(row);
  }
  return promptOf;
}

function tailOf(mask: Uint8Array, rows: number, width: number, tail: number): Uint8Array {
  const out = new Uint8Array(rows * tail);
  for (let row = 0; row < rows; row++)
    out.set(mask.subarray(row * width + width - tail, (row + 1) * width), row * tail);
  return out;
}

/** Real tokens of some columns of a row. */
function realTokens({ attentionMask, width }: RowSource, row: number, from: number, to: number): number {
  let count = 0;
  for (let k = row * width + from; k < row * width + to; k++) count += attentionMask[k]!;
  return count;
}

/** Real tokens per row. */
export function sequenceLengths(source: RowSource): number[] {
  return Array.from({ length: source.rows }, (_, row) => realTokens(source, row, 0, source.width));
}

/** Real tokens of each row's prompt. */
export function promptLengths(source: RowSource): number[] {
  return Array.from({ length: source.rows }, (_, row) =>
    realTokens(source, row, 0, source.width - source.responseWidth),
  );
}

export interface PackOptions {
  device: string;
  /** Lay a prompt that several rows have once. */
  sharePrompts: boolean;
  /** Where a row is longer than this, no prompt is shared. */
  longestShared: number;
}

/** How rows are laid for a model. FlashAttention shares a prompt only among tokens that see all of it. */
export function packOptions(model: { device: string; config: ModelConfig }, sharePrompts = true): PackOptions {
  const windows = model.config.slidingWindows.map((window) => window ?? Number.POSITIVE_INFINITY);
  const isCuda = model.device.startsWith('cuda');
  return {
    device: model.device,
    sharePrompts,
    longestShared: isCuda ? Math.min(Number.POSITIVE_INFINITY, ...windows) : Number.POSITIVE_INFINITY,
  };
}

/** The metric that says how many tokens a mini-batch saved; it goes by this name for actor and critic. */
export const SHARED_TOKENS = 'perf/shared_prompt_tokens';

/** The metric that says of how many tokens a mini-batch found the forward pass already made. */
export const RECORDED_TOKENS = 'perf/recorded_tokens';

export interface PackedRows {
  /** Tokens of all sequences, [tokens]. */
  inputIds: Tensor;
  tokens: number;
  lengths: number[];
  /** For each sequence the number of the one that it goes on from, or -1; none when no prompt is shared. */
  prefixes: number[];
  /** For each sequence the row it is of, and how many of the row's tokens stand before it. */
  origins: { row: number; offset: number }[];
  /** Packed index of the hidden state that predicts each scored token, [scored]. The end of a shared prompt is there often. */
  predictors: Tensor;
  /** The scored tokens, [scored]. */
  targets: Tensor;
  /** Their places in the flattened [rows, responseWidth], [scored]. */
  places: Tensor;
  /** Places in the batch's own flattened [batch rows, responseWidth], for results that span micro-batches. */
  batchPlaces: Int32Array;
  /** Prompt tokens that are not there because another row brought them. */
  sharedTokens: number;
  rows: readonly number[];
  responseWidth: number;
  dispose(): void;
}

/** Sequences as they are laid end to end. */
class Layout {
  readonly ids: number[] = [];
  readonly lengths: number[] = [];
  readonly prefixes: number[] = [];
  readonly origins: { row: number; offset: number }[] = [];
  readonly predictors: number[] = [];
  readonly targets: number[] = [];
  readonly places: number[] = [];
  readonly batchPlaces: number[] = [];

  constructor(private readonly source: RowSource) {}

  /** The real tokens of columns `from` to `to` of a row as one sequence, which may go on from another. */
  lay(row: number, local: number, from: number, to: number, prefix: { sequence: number; end: number } | null): void {
    const { width, responseWidth, attentionMask, responseMask, inputIds } = this.source;
    const { ids } = this;
    const start = ids.length;
    // A row without a prompt has nothing that predicts its first token.
    let predictor = prefix ? prefix.end : -1;
    for (let k = from; k < to; k++) {
      const at = row * width + k;
      if (attentionMask[at] === 0) continue;
      const response = k - (width - responseWidth);
      if (response >= 0 && responseMask[row * responseWidth + response] === 1 && predictor >= 0) {
        this.predictors.push(predictor);
        this.targets.push(inputIds[at]!);
        this.places.push(local * responseWidth + response);
        this.batchPlaces.push(row * responseWidth + response);
      }
      predictor = ids.push(inputIds[at]!) - 1;
    }
    // Behind what is predicted last, at least the end of a response, nothing matters. A sequence keeps one token.
    if (to === width) ids.length = Math.min(ids.length, Math.max(start, this.predictors.at(-1) ?? 0) + 1);
    this.lengths.push(ids.length - start);
    this.prefixes.push(prefix?.sequence ?? -1);
    this.origins.push({ row, offset: prefix ? this.lengths[prefix.sequence]! : 0 });
  }
}

/**
 * Lays shared prompts first, then their responses, then the other rows: so each of the three is one block of memory.
 * In a group a row without a response has nothing to add.
 */
export function packRows(source: RowSource, rows: readonly number[], options: PackOptions): PackedRows {
  const { width, responseWidth } = source;
  const promptWidth = width - responseWidth;
  const groups = options.sharePrompts ? sharedGroups(source, rows, options.longestShared) : [];
  const layout = new Layout(source);
  const prompts = groups.map((group, sequence) => {
    const start = layout.ids.length;
    layout.lay(rows[group[0]!]!, 0, 0, promptWidth, null);
    const end = layout.ids.length - 1;
    return { sequence, end, length: end + 1 - start };
  });
  const isLaid = new Uint8Array(rows.length);
  let sharedTokens = 0;
  for (const [k, group] of groups.entries()) {
    for (const local of group) {
      const row = rows[local]!;
      if (realTokens(source, row, promptWidth, width) > 0) layout.lay(row, local, promptWidth, width, prompts[k]!);
      isLaid[local] = 1;
    }
    sharedTokens += (group.length - 1) * prompts[k]!.length;
  }
  for (const [local, row] of rows.entries()) if (!isLaid[local]) layout.lay(row, local, 0, width, null);

  const long = (values: number[]): Tensor =>
    tensor(Int32Array.from(values), { dtype: 'int64', device: options.device }).keep();
  const packed = {
    inputIds: long(layout.ids),
    predictors: long(layout.predictors),
    targets: long(layout.targets),
    places: long(layout.places),
  };
  return {
    ...packed,
    tokens: layout.ids.length,
    lengths: layout.lengths,
    prefixes: groups.length > 0 ? layout.prefixes : [],
    origins: layout.origins,
    batchPlaces: Int32Array.from(layout.batchPlaces),
    sharedTokens,
    rows,
    responseWidth,
    dispose: () => {
      for (const value of Object.values(packed)) value.dispose();
    },
  };
}

/** Rows (by their place in `rows`) that have one prompt, where at least two of them have a response to it. */
function sharedGroups(source: RowSource, rows: readonly number[], longestShared: number): number[][] {
  const promptWidth = source.width - source.responseWidth;
  const byPrompt = new Map<number, number[]>();
  for (const [local, row] of rows.entries()) {
    if (realTokens(source, row, 0, source.width) > longestShared) return [];
    const prompt = source.promptOf[row]!;
    const group = byPrompt.get(prompt);
    if (group) group.push(local);
    else byPrompt.set(prompt, [local]);
  }
  const responses = (group: number[]): number =>
    group.filter((local) => realTokens(source, rows[local]!, promptWidth, source.width) > 0).length;
  return [...byPrompt]
    .filter(([prompt, group]) => responses(group) > 1 && realTokens(source, prompt, 0, promptWidth) > 0)
    .map(([, group]) => group);
}

/** The tokens of a row without padding, up to a column. */
export function tokensOf({ inputIds, attentionMask, width }: RowSource, row: number, end = width): Int32Array {
  return inputIds.subarray(row * width, row * width + end).filter((_, k) => attentionMask[row * width + k] === 1);
}

/** The column behind the last token of a row that the model sampled. */
export function sampledEnd({ responseMask, width, responseWidth }: RowSource, row: number): number {
  const sampled = responseMask.subarray(row * responseWidth, (row + 1) * responseWidth);
  return width - responseWidth + sampled.lastIndexOf(1) + 1;
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
