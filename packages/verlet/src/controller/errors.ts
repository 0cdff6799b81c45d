/** What goes wrong on ranks, told to the person who reads the controller's log. */

export type WorkerFailure =
  /** A method threw; the group cannot know the state of the ranks any more. */
  | 'threw'
  /** The process ended. */
  | 'died'
  /** No answer within the limit. */
  | 'hung'
  /** It never came up. */
  | 'not started';

export class WorkerError extends Error {
  override readonly name = 'WorkerError';
  readonly failure: WorkerFailure;
  readonly rank: number;
  readonly method: string;
  /** Name of the error that the worker threw, such as `NonFiniteError`. */
  readonly workerErrorName: string | undefined;
  /** The worker's own stack, or the last lines it wrote before it died. */
  readonly workerStack: string | undefined;

  constructor(details: {
    failure: WorkerFailure;
    rank: number;
    worldSize: number;
    method: string;
    reason: string;
    workerErrorName?: string;
    workerStack?: string;
    cause?: unknown;
  }) {
    const { failure, rank, worldSize, method, reason, workerStack } = details;
    const where = `rank ${rank} of ${worldSize} ${failure === 'threw' ? 'failed' : failure} in ${method}`;
    const stack = workerStack ? `\n  on the rank:\n${workerStack.replace(/^/gm, '    ')}` : '';
    super(`${where}: ${reason}${stack}`, { cause: details.cause });
    this.failure = failure;
    this.rank = rank;
    this.method = method;
    this.workerErrorName = details.workerErrorName;
    this.workerStack = workerStack;
  }
}
