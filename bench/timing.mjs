/** The middle one, the upper of two. */
export function median(values) {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];
}

/** Least processor time of `repeats` calls after one that warms up: other work on the machine hardly disturbs it. */
export function cpuMilliseconds(body, repeats) {
  body();
  let best = Number.POSITIVE_INFINITY;
  for (let k = 0; k < repeats; k++) {
    const before = process.cpuUsage();
    body();
    const { user, system } = process.cpuUsage(before);
    best = Math.min(best, (user + system) / 1000);
  }
  return best;
}
