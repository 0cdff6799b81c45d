/** Logits to tokens: penalties and bans first, then one draw per row whose noise depends on (seed, sample, position) alone. */
import { aten, scope, stack, type Tensor, tensor } from '@verlet/torch';
import type { Sequence } from './sequence.js';
import type { TopLogProb } from './types.js';

export interface Sampled {
  tokenId: number;
  logProb: number;
  topLogProbs?: TopLogProb[];
}

function needsAdjusting(sequence: Sequence): boolean {
  const { repetitionPenalty, presencePenalty, frequencyPenalty, minTokens } = sequence.sampling;
  return repetitionPenalty !== 1 || presencePenalty !== 0 || frequencyPenalty !== 0 || sequence.numOutput < minTokens;
}

/** What it asks for is worked out on the host, from the logits themselves. */
export function needsHost(sequence: Sequence): boolean {
  return needsAdjusting(sequence) || sequence.sampling.topLogProbs > 0;
}

/** A copy of one row of logits with penalties applied and end tokens banned while the output is too short. */
function adjusted(row: Tensor, sequence: Sequence, endTokens: readonly number[]): Tensor {
  const values = row.to('float32').toFloat32Array();
  const { repetitionPenalty, presencePenalty, frequencyPenalty, minTokens, stopTokenIds } = sequence.sampling;
  if (repetitionPenalty !== 1)
    for (const token of new Set(sequence.tokens)) {
      const value = values[token]!;
      values[token] = value > 0 ? value / repetitionPenalty : value * repetitionPenalty;
    }
  if (presencePenalty !== 0 || frequencyPenalty !== 0) {
    const counts = new Map<number, number>();
    for (const token of sequence.tokens.slice(sequence.promptLength)) counts.set(token, (counts.get(token) ?? 0) + 1);
    for (const [token, count] of counts) values[token]! -= presencePenalty + frequencyPenalty * count;
  }
  if (sequence.numOutput < minTokens)
    for (const token of [...endTokens, ...stopTokenIds]) values[token] = Number.NEGATIVE_INFINITY;
  return tensor(values, { device: row.device });
}

/** What each row of a batch asks of its draw and does not change from step to step. */
export class SamplingColumns {
  private readonly sequences: readonly Sequence[];
  readonly temperature: Tensor;
  readonly topK: Tensor;
  readonly topP: Tensor;
  readonly minP: Tensor;
  readonly seed: Tensor;
  readonly stream: Tensor;
  /** No row will ever have its logits changed before the draw. */
  readonly isPlain: boolean;
  /** Nothing has to look at a row's tokens or logits on the way: what ends it are tokens alone, and its length. */
  readonly isUntouched: boolean;
  /** Tokens that end each row, -1 where it has fewer; [rows, most]. */
  readonly ends: Tensor;

  constructor(sequences: readonly Sequence[], device: string, endTokens: readonly number[] = []) {
    const floats = (pick: (sequence: Sequence) => number): Tensor =>
      tensor(Float32Array.from(sequences, pick), { device }).keep();
    const ints = (pick: (sequence: Sequence) => number): Tensor =>
      tensor(Float64Array.from(sequences, pick), { dtype: 'int64', device }).keep();
    this.sequences = [...sequences];
    this.temperature = floats((sequence) => sequence.sampling.temperature);
    this.topK = ints((sequence) => sequence.sampling.topK);
    this.topP = floats((sequence) => sequence.sampling.topP);
    this.minP = floats((sequence) => sequence.sampling.minP);
    this.seed = ints((sequence) => sequence.seed);
    this.stream = ints((sequence) => sequence.sampleIndex);
    // Tokens only come, so who is past its least number of them stays so.
    this.isPlain = !sequences.some((sequence) => needsAdjusting(sequence));
    this.isUntouched = this.isPlain && sequences.every((sequence) => !sequence.detokenizer && !needsHost(sequence));
    const ends = sequences.map(({ sampling }) => [...(sampling.ignoreEos ? [] : endTokens), ...sampling.stopTokenIds]);
    const most = Math.max(1, ...ends.map((own) => own.length));
    const padded = ends.flatMap((own) => [...own, ...new Array<number>(most - own.length).fill(-1)]);
    this.ends = tensor(Int32Array.from(padded), { dtype: 'int64', shape: [sequences.length, most], device }).keep();
  }

  areOf(sequences: readonly Sequence[]): boolean {
    return (
      sequences.length === this.sequences.length && sequences.every((sequence, k) => sequence === this.sequences[k])
    );
  }

  dispose(): void {
    const { temperature, topK, topP, minP, seed, stream, ends } = this;
    for (const column of [temperature, topK, topP, minP, seed, stream, ends]) column.dispose();
  }
}

/**
 * One token for each row.
 *
 * @param logits [rows, vocabulary]; row k belongs to `sequences[k]`
 * @param endTokens the model's own, banned while `minTokens` is not reached
 * @param kept the sequences' columns, where the caller has them from the step before
 */
export function sampleTokens(
  logits: Tensor,
  sequences: readonly Sequence[],
  endTokens: readonly number[],
  kept: SamplingColumns | null = null,
): Sampled[] {
  return scope(() => {
    const rows = sequences.length;
    const { device } = logits;
    const columns = kept ?? new SamplingColumns(sequences, device);
    let working = logits;
    const changed = sequences.map((sequence) => !columns.isPlain && needsAdjusting(sequence));
    if (changed.includes(true))
      working = stack(
        sequences.map((sequence, k) =>
          changed[k] ? adjusted(logits.select(0, k), sequence, endTokens) : logits.select(0, k).to('float32'),
        ),
      );
    const { temperature, topK, topP, minP, seed, stream } = columns;
    const position = tensor(
      Int32Array.from(sequences, (sequence) => sequence.numOutput),
      { dtype: 'int64', device },
    );
    const [tokens, logProbs] = aten.verlet_sample(working, temperature, topK, topP, minP, seed, stream, position);
    if (!kept) columns.dispose();
    const ids = tokens.toInt32Array();
    const chosen = logProbs.toFloat32Array();
    const sampled: Sampled[] = Array.from({ length: rows }, (_, k) => ({ tokenId: ids[k]!, logProb: chosen[k]! }));
    for (let k = 0; k < rows; k++) {
      const { topLogProbs, temperature: heat } = sequences[k]!.sampling;
      if (!changed[k] && topLogProbs === 0) continue;
      // The trainer knows nothing of penalties: what is reported is the plain distribution at this temperature.
      const plain = logits
        .select(0, k)
        .to('float32')
        .div(heat > 0 ? heat : 1)
        .logSoftmax(-1);
      if (changed[k]) sampled[k]!.logProb = plain.select(0, ids[k]!).item();
      if (topLogProbs > 0) {
        const [values, indices] = plain.topk(topLogProbs);
        const best = indices.toInt32Array();
        sampled[k]!.topLogProbs = Array.from(values.toFloat32Array(), (logProb, j) => ({ tokenId: best[j]!, logProb }));
      }
    }
    return sampled;
  });
}
