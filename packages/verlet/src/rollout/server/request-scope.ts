/** The life of one generating request: what may cut it short, and what is counted about it. */
import { ApiError } from './errors.js';
import type { ServerMetrics } from './metrics.js';

const MAX_PIECES_PER_SECOND = 4000;

export class RequestScope {
  private readonly controller = new AbortController();
  private readonly startedAt = performance.now();
  private readonly timer: NodeJS.Timeout;
  private firstTokenSeen = false;
  private closed = false;

  constructor(
    private readonly metrics: ServerMetrics,
    private readonly live: Set<RequestScope>,
    timeoutMs: number,
    clientSignal: AbortSignal | undefined,
  ) {
    this.timer = setTimeout(() => {
      this.abort(new ApiError(504, `The request ran longer than ${timeoutMs} ms and was ended.`, null, 'timeout'));
    }, timeoutMs);
    this.timer.unref();
    const clientLeft = () => this.abort(new ApiError(499, 'The client closed the request.', null, 'client_closed'));
    if (clientSignal?.aborted) clientLeft();
    clientSignal?.addEventListener('abort', clientLeft, { once: true });
    metrics.running++;
    live.add(this);
  }

  get signal(): AbortSignal {
    return this.controller.signal;
  }

  /**
   * How long a stream should gather tokens before its next piece. A piece costs the process about as much whatever it
   * holds, so many streams at a time get theirs less often; a few get every token at once.
   */
  get streamPauseMs(): number {
    return (this.live.size / MAX_PIECES_PER_SECOND) * 1000;
  }

  abort(reason: ApiError): void {
    if (this.closed || this.signal.aborted) return;
    this.metrics.abortedRequests++;
    this.controller.abort(reason);
  }

  countTokens(count: number): void {
    if (count === 0) return;
    if (!this.firstTokenSeen) this.metrics.timeToFirstToken.observe(this.elapsedSeconds);
    this.firstTokenSeen = true;
    this.metrics.generationTokens += count;
  }

  countPrompt(tokens: number): void {
    this.metrics.promptTokens += tokens;
  }

  close(): void {
    if (this.closed) return;
    this.closed = true;
    clearTimeout(this.timer);
    this.metrics.running--;
    this.metrics.requestDuration.observe(this.elapsedSeconds);
    this.live.delete(this);
    this.controller.abort(); // Nobody waits for what may still run, e.g. the other choices after one failed.
  }

  private get elapsedSeconds(): number {
    return (performance.now() - this.startedAt) / 1000;
  }
}
