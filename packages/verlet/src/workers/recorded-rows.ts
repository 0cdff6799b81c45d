/** Packed rows whose forward pass was made when they were sampled. */
import type { Recorded } from '../models/whole-pass.js';
import type { ActivationTape } from '../rollout/activation-tape.js';
import { type PackedRows, type RowSource, sampledEnd, tokensOf } from './packing.js';

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
      rows = findRow(tape, source, row);
      known.set(row, rows);
    }
    const length = packed.lengths[sequence]!;
    // What was sampled last is not there. It is laid only where a sequence has no other token: nothing depends on it then, and
    // any record stands in for its own.
    if (!rows || (offset + length > rows.length && length > 1)) return null;
    for (let k = 0; k < length; k++) index[at++] = rows[Math.min(offset + k, rows.length - 1)]!;
  }
  return tape.recorded(index);
}

/** An agent's row may end with what a tool said, which was never shown to the model. */
function findRow(tape: ActivationTape, source: RowSource, row: number): Int32Array | null {
  return tape.find(tokensOf(source, row)) ?? tape.find(tokensOf(source, row, sampledEnd(source, row)));
}
