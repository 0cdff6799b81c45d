/**
 * What the layers computed for sampled tokens, written down on the way. Sampling is a forward pass with the trainer's own weights:
 * as long as they stay as they are, scoring the tokens and walking back from them need no forward pass of their own. Sequences are
 * found by their tokens, so whatever happened to a batch in between, nothing is taken for something else.
 */
import os from 'node:os';
import { empty, type Tensor, tensor } from '@verlet/torch';
import type { ModelConfig } from '../models/config.js';
import type { CausalLM } from '../models/transformer.js';
import { type Recorded, recordWidth, trainsWhole } from '../models/whole-pass.js';
import type { BlockCopy } from './scheduler.js';

const rowsPerPiece = 1024;

/** Where some tokens are written: rows of the pieces, one after the other. */
export interface TapeRows {
  pieces: readonly Tensor[];
  first: number;
  count: number;
}

interface Known {
  tokens: Int32Array;
  /** The tape's row of each token but the last, which was sampled and not computed. */
  rows: Int32Array;
}

export class ActivationTape {
  /** Whether what is computed now is written down. */
  isOn = true;
  private readonly pieces: Tensor[] = [];
  private readonly width: number;
  private readonly mostRows: number;
  private used = 0;
  private rowOfSlot = new Int32Array(0);
  private readonly known = new Map<number, Known[]>();

  private constructor(config: ModelConfig, bytes: number) {
    this.width = recordWidth(config);
    this.mostRows = Math.floor(bytes / (4 * this.width));
  }

  /**
   * Null where the model's passes are not of the kind that can be written down.
   *
   * @param bytes at most; all that have tapes on this machine together take no more than an eighth of its memory
   */
  static of(model: CausalLM, bytes: number, tapes = 1): ActivationTape | null {
    if (!trainsWhole(model.model)) return null;
    const tape = new ActivationTape(model.config, Math.min(bytes, os.totalmem() / 8 / tapes));
    return tape.mostRows > 0 ? tape : null;
  }

  /**
   * Where the tokens that are about to be computed for these slots of the cache (-1: none) are written; null: nowhere.
   *
   * @param canWrite whether who computes them writes down anything
   */
  take(slots: ArrayLike<number>, slotCount: number, canWrite = true): TapeRows | null {
    if (this.rowOfSlot.length < slotCount) this.rowOfSlot = new Int32Array(slotCount).fill(-1);
    const fits = canWrite && this.isOn && this.used + slots.length <= this.mostRows;
    for (let k = 0; k < slots.length; k++) if (slots[k]! >= 0) this.rowOfSlot[slots[k]!] = fits ? this.used + k : -1;
    if (!fits) return null;
    const first = this.used;
    this.used += slots.length;
    while (this.pieces.length * rowsPerPiece < this.used)
      this.pieces.push(empty([rowsPerPiece, this.width]).heldBy(this));
    return { pieces: this.pieces, first, count: slots.length };
  }

  copyBlocks(copies: readonly BlockCopy[], blockSize: number): void {
    for (const { from, to } of copies)
      this.rowOfSlot.copyWithin(to * blockSize, from * blockSize, (from + 1) * blockSize);
  }

  /** A sequence is complete; its blocks are still its own. */
  remember(tokens: readonly number[], slotOf: (position: number) => number): void {
    if (!this.isOn) return;
    const rows = new Int32Array(tokens.length - 1);
    for (let k = 0; k < rows.length; k++) {
      rows[k] = this.rowOfSlot[slotOf(k)] ?? -1;
      if (rows[k]! < 0) return;
    }
    const own = { tokens: Int32Array.from(tokens), rows };
    const hash = hashOf(own.tokens);
    const others = this.known.get(hash);
    if (others) others.push(own);
    else this.known.set(hash, [own]);
  }

  /** The rows of a sequence's tokens, the last one excepted; null where they are not all there. */
  find(tokens: Int32Array): Int32Array | null {
    const isEqual = (other: Known): boolean =>
      other.tokens.length === tokens.length && other.tokens.every((token, k) => token === tokens[k]);
    return this.known.get(hashOf(tokens))?.find(isEqual)?.rows ?? null;
  }

  /** What a pass is walked back from. @param rows the tape's row of each token */
  recorded(rows: Int32Array): Recorded {
    return { tape: this.pieces, index: tensor(rows, { dtype: 'int64' }) };
  }

  /** The weights are others now, or the cache is gone. */
  clear(): void {
    this.used = 0;
    this.known.clear();
    this.rowOfSlot.fill(-1);
  }

  dispose(): void {
    this.clear();
    for (const piece of this.pieces.splice(0)) piece.dispose();
  }
}

function hashOf(tokens: Int32Array): number {
  let hash = tokens.length;
  for (let k = 0; k < tokens.length; k++) hash = Math.imul(hash ^ tokens[k]!, 0x01000193) ^ (hash >>> 15);
  return hash;
}
