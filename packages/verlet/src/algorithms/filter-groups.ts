/** DAPO's dynamic sampling: prompts whose answers all score the same teach nothing and make room for others. */
import { groupRows } from './advantages/groups.js';

export interface FilterGroupsInput {
  groupIds: readonly string[];
  /** The metric of each row: acc, score, or the sum of its rewards. */
  values: readonly number[];
  /** EasyR1's rule instead of spread: keep groups whose mean lies strictly between the two. */
  low?: number | null;
  high?: number | null;
  /** Keep at most this many groups, the first ones. */
  maxGroups?: number;
}

export interface FilteredGroups {
  /** In their old order. */
  rows: number[];
  groupIds: string[];
  /** Rows of groups that taught nothing. */
  droppedRows: number;
  /** Rows of good groups beyond `maxGroups`. */
  surplusRows: number;
}

/** Keeps groups with different values, and groups of one. Nothing kept is no error: the caller generates more. */
export function filterGroups(input: FilterGroupsInput): FilteredGroups {
  const { groupIds, values, maxGroups = Number.POSITIVE_INFINITY } = input;
  if (groupIds.length !== values.length) throw new RangeError(`${groupIds.length} rows but ${values.length} values`);
  const byMean = (input.low ?? null) !== null || (input.high ?? null) !== null;
  const good = groupRows(groupIds).filter((rows) => (byMean ? betweenBounds(rows, input) : differs(rows, values)));
  const kept = good.slice(0, maxGroups);
  const goodRows = good.reduce((sum, rows) => sum + rows.length, 0);
  const rows = kept.flat().sort((a, b) => a - b);
  return {
    rows,
    groupIds: kept.map((group) => groupIds[group[0]!]!),
    droppedRows: groupIds.length - goodRows,
    surplusRows: goodRows - rows.length,
  };
}

/** Compared as they are: a standard deviation of equal floats can come out above 0. */
function differs(rows: readonly number[], values: readonly number[]): boolean {
  return rows.length === 1 || rows.some((row) => values[row] !== values[rows[0]!]);
}

function betweenBounds(rows: readonly number[], { values, low, high }: FilterGroupsInput): boolean {
  const mean = rows.reduce((sum, row) => sum + values[row]!, 0) / rows.length;
  return mean > (low ?? Number.NEGATIVE_INFINITY) && mean < (high ?? Number.POSITIVE_INFINITY);
}
