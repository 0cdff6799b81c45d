/** Packed rows whose forward pass was made when they were sampled. */
import type { Recorded } from '../models/whole-pass.js';
import type { ActivationTape } from '../rollout/activation-tape.js';
import { type PackedRows, type RowSource, tokensOf } from './packing.js';

/** Null unless all of their tokens are on the tape. */
export function recordedRows(
  tape: ActivationTape | null | undefined,
  source: RowSource,
  packed: PackedRows,
): Recorded | null {
  if (!tape) return null;
  const known = new Map<number, Int32Array | null>();
  const index = new Int32Array(packed.tokens);
  let at = 0;
  for (const [sequence, { row, offset }] of packed.origins.entries()) {
    let rows = known.get(row);
    if (rows === undefined) {
      rows = tape.find(tokensOf(source, row));
      known.set(row, rows);
    }
    if (!rows) return null;
    // A row's last token is not there. Nothing depends on it, so any record stands in for its own.
    for (let k = 0; k < packed.lengths[sequence]!; k++) index[at++] = rows[Math.min(offset + k, rows.length - 1)]!;
  }
  return tape.recorded(index);
}
