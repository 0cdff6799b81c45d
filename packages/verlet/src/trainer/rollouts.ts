/**
 * Rows and rollouts. A program's run may leave several trajectories (separate or edited conversations), a row each. It is one
 * sample of its prompt all the same: group statistics, filters, metrics and validation count rollouts, by their last row.
 */
import { scoredRows } from '../algorithms/index.js';
import type { DataProto } from '../protocol/index.js';

const KEY = 'trajectory_key';

/** Names every row by its prompt, its rollout and its place there: `uid_rollout_trajectory`, as verl's sessions. */
export function nameTrajectories(batch: DataProto): void {
  const uids = batch.column<string>('uid');
  const seen = new Map<number, number>();
  const keys = batch.column<number>('row_id').map((id, row) => {
    const place = seen.get(id) ?? 0;
    seen.set(id, place + 1);
    return `${uids[row]}_${id}_${place}`;
  });
  batch.setColumn(KEY, keys);
}

export function trajectoryKeys(batch: DataProto): readonly string[] | undefined {
  return batch.nonTensorBatch.has(KEY) ? batch.column<string>(KEY) : undefined;
}

/** For each row the row whose score counts for its rollout: the last one's. */
export function decidingRows(batch: DataProto): number[] {
  const keys = trajectoryKeys(batch);
  return keys ? scoredRows(keys) : Array.from({ length: batch.length }, (_, row) => row);
}

/** The rows of each rollout, in order; the last of them decides. */
export function rolloutRows(batch: DataProto): number[][] {
  const rollouts = new Map<number, number[]>();
  for (const [row, decider] of decidingRows(batch).entries()) {
    const rows = rollouts.get(decider);
    if (rows) rows.push(row);
    else rollouts.set(decider, [row]);
  }
  return [...rollouts.values()];
}

/** Whole rollouts by their numbers in `rolloutRows`, as often as they are named; each time as a rollout of its own. */
export function selectRollouts(batch: DataProto, chosen: readonly number[]): DataProto {
  const rollouts = rolloutRows(batch);
  const uids = batch.column<string>('uid');
  const rows = chosen.flatMap((rollout) => rollouts[rollout]!);
  const keys = chosen.flatMap((rollout, draw) =>
    rollouts[rollout]!.map((row, place) => `${uids[row]}_${draw}_${place}`),
  );
  const selected = batch.selectIdxs(rows);
  selected.setColumn(KEY, keys);
  return selected;
}
