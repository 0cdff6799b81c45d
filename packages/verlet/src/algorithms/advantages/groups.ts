/** Rows of one prompt, and rows of one session. */

/** Rows of each group, in order of first appearance. */
export function groupRows(groupIds: readonly string[]): number[][] {
  const groups = new Map<string, number[]>();
  for (const [row, id] of groupIds.entries()) {
    const rows = groups.get(id);
    if (rows) rows.push(row);
    else groups.set(id, [row]);
  }
  return [...groups.values()];
}

/**
 * Group numbers from labels of any kind: labels that are (or look like) integers stay those numbers, others are numbered in
 * sorted order.
 */
export function groupIndex(labels: readonly (string | number | boolean)[]): number[] {
  const numbers = labels.map((label) =>
    typeof label === 'string' ? (/^\s*[+-]?\d+\s*$/.test(label) ? Number(label) : Number.NaN) : Number(label),
  );
  if (numbers.every((number) => Math.abs(number - Math.round(number)) <= 1e-6)) return numbers.map(Math.round);
  const names = labels.map(String);
  const order = new Map([...new Set(names)].sort((a, b) => (a < b ? -1 : 1)).map((name, k) => [name, k]));
  return names.map((name) => order.get(name)!);
}

/** For each row the row whose score counts: the last trajectory of its session. Keys are `uid_session_trajectory`. */
export function scoredRows(trajectoryKeys: readonly string[]): number[] {
  const last = new Map<string, { trajectory: number; row: number }>();
  const sessions = trajectoryKeys.map((key, row) => {
    const match = /^(.*_[^_]*)_(\d+)$/s.exec(key);
    if (!match) throw new RangeError(`trajectory key ${JSON.stringify(key)} is not uid_session_trajectory`);
    const session = match[1]!;
    const trajectory = Number(match[2]);
    const known = last.get(session);
    if (!known || known.trajectory < trajectory) last.set(session, { trajectory, row });
    return session;
  });
  return sessions.map((session) => last.get(session)!.row);
}
