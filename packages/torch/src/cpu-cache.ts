const mostBytes = 4 * 2 ** 30;

/**
 * The allocator keeps freed blocks for the next ones, an eighth of the machine's memory at most. It knows nothing of containers:
 * where less than the machine's memory is allowed, the eighth is of that.
 *
 * @param allowed what `process.constrainedMemory()` says: 0 or more than there is where nothing is limited
 */
export function cacheEnvironment(
  allowed: number | undefined,
  machine: number,
  chosen = process.env.VERLET_CPU_CACHE_MB,
): Record<string, string> {
  if (chosen !== undefined || !allowed || allowed >= machine) return {};
  return { VERLET_CPU_CACHE_MB: String(Math.floor(Math.min(allowed / 8, mostBytes) / 2 ** 20)) };
}
