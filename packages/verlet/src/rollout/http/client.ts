/** Requests with deadlines, retries and backoff; server-sent events that cannot go silent for ever. */
import { errorOfResponse, HttpEngineError } from './errors.js';

export interface HttpClientOptions {
  /** Where `/v1` is, without it. */
  root: string;
  apiKey?: string;
  /** Longest silence of the server while it answers. */
  idleTimeoutMs: number;
  maxRetries: number;
  /** Wait before the first retry; doubles each time, up to 30 s, with jitter. */
  retryDelayMs: number;
}

export class HttpClient {
  constructor(readonly options: HttpClientOptions) {}

  /** JSON in, JSON out (text where the server has no JSON to say), tried again while the failure is transient and `signal` allows. */
  async request(method: 'GET' | 'POST', path: string, signal: AbortSignal, body?: unknown): Promise<unknown> {
    return this.withRetries(signal, async () => {
      const response = await this.fetch(method, path, signal, body);
      const isJson = response.headers.get('content-type')?.includes('json');
      return isJson ? response.json() : response.text();
    });
  }

  async withRetries<T>(signal: AbortSignal, attempt: () => Promise<T>): Promise<T> {
    for (let failures = 0; ; ) {
      try {
        return await attempt();
      } catch (error) {
        if (!(await this.mayRetry(error, failures, signal))) throw error;
        failures++;
      }
    }
  }

  /** Waits out the backoff and says whether to try again. */
  async mayRetry(error: unknown, failures: number, signal: AbortSignal): Promise<boolean> {
    const isTransient = error instanceof HttpEngineError && error.isTransient;
    if (!isTransient || failures >= this.options.maxRetries || signal.aborted) return false;
    const backoff = Math.min(this.options.retryDelayMs * 2 ** failures, 30_000);
    // Jitter, so that requests that failed together do not come back together.
    await sleep(error.retryAfterMs ?? backoff * (0.5 + Math.random() / 2), signal);
    return !signal.aborted;
  }

  /** The `data:` payloads of a streamed answer. Ends with `[DONE]` or with the connection. */
  async *streamEvents(path: string, signal: AbortSignal, body: unknown): AsyncGenerator<unknown> {
    const silence = new AbortController();
    const anySignal = AbortSignal.any([signal, silence.signal]);
    const { idleTimeoutMs } = this.options;
    let timer = setTimeout(() => silence.abort(), idleTimeoutMs);
    try {
      const response = await this.fetch('POST', path, anySignal, body);
      const decoder = new TextDecoder();
      let pending = '';
      for await (const bytes of response.body as AsyncIterable<Uint8Array>) {
        clearTimeout(timer);
        timer = setTimeout(() => silence.abort(), idleTimeoutMs);
        pending += decoder.decode(bytes, { stream: true });
        const lines = pending.split(/\r?\n/);
        pending = lines.pop()!;
        for (const line of lines) {
          if (!line.startsWith('data:')) continue;
          const data = line.slice('data:'.length).trim();
          if (data === '[DONE]') return;
          yield JSON.parse(data);
        }
      }
    } catch (error) {
      if (error instanceof HttpEngineError && !silence.signal.aborted) throw error;
      if (signal.aborted) throw signal.reason;
      const what = silence.signal.aborted ? `was silent for ${idleTimeoutMs} ms` : 'broke off its answer';
      throw new HttpEngineError(`${this.options.root} ${what}`, { isTransient: true, cause: error });
    } finally {
      clearTimeout(timer);
    }
  }

  private async fetch(method: string, path: string, signal: AbortSignal, body?: unknown): Promise<Response> {
    const { root, apiKey } = this.options;
    const headers: Record<string, string> = {};
    if (apiKey) headers.authorization = `Bearer ${apiKey}`;
    if (body !== undefined) headers['content-type'] = 'application/json';
    let response: Response;
    try {
      response = await fetch(root + path, {
        method,
        headers,
        signal,
        body: body && JSON.stringify(body),
      } as RequestInit);
    } catch (error) {
      if (signal.aborted) throw signal.reason;
      const reason = (error as Error & { cause?: Error }).cause?.message ?? (error as Error).message;
      throw new HttpEngineError(`cannot reach ${root + path}: ${reason}`, { isTransient: true, cause: error });
    }
    if (!response.ok) throw await errorOfResponse(response, `${method} ${root + path}`);
    return response;
  }
}

function sleep(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      signal.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, milliseconds);
    if (signal.aborted) done();
    else signal.addEventListener('abort', done, { once: true });
  });
}
