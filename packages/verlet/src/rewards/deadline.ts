import { RewardError } from './types.js';

/** Fails with a message that says what was waited for when `promise` takes longer than `timeoutMs`. */
export async function withDeadline<T>(
  promise: Promise<T> | T,
  timeoutMs: number | undefined,
  what: string,
): Promise<T> {
  if (timeoutMs === undefined || !Number.isFinite(timeoutMs)) return promise;
  let timer: NodeJS.Timeout | undefined;
  const deadline = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new RewardError(`${what} took longer than ${timeoutMs / 1000} s`)), timeoutMs);
  });
  try {
    return await Promise.race([promise, deadline]);
  } finally {
    clearTimeout(timer);
  }
}
