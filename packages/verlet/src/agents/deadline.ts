/** Waiting on other people's code: never without a limit. */

export class DeadlineError extends Error {
  override readonly name = 'DeadlineError';
  constructor(
    readonly what: string,
    readonly seconds: number,
  ) {
    super(`${what} did not finish within ${seconds} s`);
  }
}

/**
 * Runs `work` with a signal that fires at the deadline (or when `outer` fires) and stops waiting at that moment,
 * whether or not the work listens to the signal.
 */
export async function withDeadline<T>(
  what: string,
  seconds: number,
  work: (signal: AbortSignal) => Promise<T> | T,
  outer?: AbortSignal,
): Promise<T> {
  const controller = new AbortController();
  return await new Promise<T>((resolve, reject) => {
    const giveUp = (error: unknown) => {
      reject(error);
      controller.abort(error);
    };
    const timer = setTimeout(() => giveUp(new DeadlineError(what, seconds)), timerMilliseconds(seconds));
    const onOuterAbort = () => giveUp(outer?.reason ?? new Error(`${what} was aborted`));
    if (outer?.aborted) onOuterAbort();
    else outer?.addEventListener('abort', onOuterAbort, { once: true });
    // The extra `then` turns a synchronous throw of `work` into a rejection.
    Promise.resolve()
      .then(() => work(controller.signal))
      .then(resolve, reject)
      .finally(() => {
        clearTimeout(timer);
        outer?.removeEventListener('abort', onOuterAbort);
      });
  });
}

/** Timers hold 31 bits: a longer wait, or Infinity for none, would fire at once. */
export function timerMilliseconds(seconds: number): number {
  return Math.min(seconds * 1000, 2 ** 31 - 1);
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
